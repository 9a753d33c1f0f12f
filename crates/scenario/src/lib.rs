//! Machines, workloads, scenarios and studies as files.
