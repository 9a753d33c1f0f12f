//! Field numbers by message, from Perfetto's public schema (`protos/perfetto/trace/`, release 51). The wake messages
//! share one layout.

pub(crate) const TRACE_PACKET: u32 = 1;

pub(crate) const PACKET_FTRACE_EVENTS: u32 = 1;
pub(crate) const PACKET_PROCESS_TREE: u32 = 2;
pub(crate) const PACKET_TIMESTAMP: u32 = 8;
pub(crate) const PACKET_SEQUENCE_ID: u32 = 10;
pub(crate) const PACKET_SEQUENCE_FLAGS: u32 = 13;
pub(crate) const PACKET_SYSTEM_INFO: u32 = 45;
pub(crate) const PACKET_FIRST_ON_SEQUENCE: u32 = 87;

pub(crate) const SYSTEM_INFO_UTSNAME: u32 = 1;
pub(crate) const UTSNAME_SYSNAME: u32 = 1;
pub(crate) const UTSNAME_RELEASE: u32 = 3;

pub(crate) const TREE_PROCESSES: u32 = 1;
pub(crate) const TREE_THREADS: u32 = 2;
pub(crate) const PROCESS_PID: u32 = 1;
pub(crate) const PROCESS_PPID: u32 = 2;
pub(crate) const PROCESS_CMDLINE: u32 = 3;
pub(crate) const PROCESS_CMDLINE_IS_COMM: u32 = 9;
pub(crate) const THREAD_TID: u32 = 1;
pub(crate) const THREAD_NAME: u32 = 2;
pub(crate) const THREAD_TGID: u32 = 3;

pub(crate) const BUNDLE_CPU: u32 = 1;
pub(crate) const BUNDLE_EVENT: u32 = 2;

pub(crate) const EVENT_TIMESTAMP: u32 = 1;
pub(crate) const EVENT_PID: u32 = 2;
pub(crate) const EVENT_PRINT: u32 = 3;
pub(crate) const EVENT_SCHED_SWITCH: u32 = 4;
pub(crate) const EVENT_SCHED_WAKEUP: u32 = 17;
pub(crate) const EVENT_SCHED_WAKING: u32 = 20;
pub(crate) const EVENT_SCHED_WAKEUP_NEW: u32 = 114;
pub(crate) const EVENT_SCHED_PROCESS_EXEC: u32 = 237;
pub(crate) const EVENT_SCHED_PROCESS_EXIT: u32 = 238;
pub(crate) const EVENT_SCHED_PROCESS_FORK: u32 = 239;
pub(crate) const EVENT_GENERIC: u32 = 327;
pub(crate) const EVENT_SCHED_MIGRATE_TASK: u32 = 491;

pub(crate) const PRINT_BUF: u32 = 2;

pub(crate) const SWITCH_PREV_COMM: u32 = 1;
pub(crate) const SWITCH_PREV_PID: u32 = 2;
pub(crate) const SWITCH_PREV_PRIO: u32 = 3;
pub(crate) const SWITCH_PREV_STATE: u32 = 4;
pub(crate) const SWITCH_NEXT_COMM: u32 = 5;
pub(crate) const SWITCH_NEXT_PID: u32 = 6;
pub(crate) const SWITCH_NEXT_PRIO: u32 = 7;

pub(crate) const TASK_COMM: u32 = 1;
pub(crate) const TASK_PID: u32 = 2;
pub(crate) const TASK_PRIO: u32 = 3;
pub(crate) const WAKE_SUCCESS: u32 = 4;
pub(crate) const WAKE_TARGET_CPU: u32 = 5;
pub(crate) const MIGRATE_ORIG_CPU: u32 = 4;
pub(crate) const MIGRATE_DEST_CPU: u32 = 5;
pub(crate) const EXIT_PRIO: u32 = 4;
pub(crate) const EXEC_FILENAME: u32 = 1;
pub(crate) const EXEC_PID: u32 = 2;
pub(crate) const EXEC_OLD_PID: u32 = 3;
pub(crate) const FORK_PARENT_COMM: u32 = 1;
pub(crate) const FORK_PARENT_PID: u32 = 2;
pub(crate) const FORK_CHILD_COMM: u32 = 3;
pub(crate) const FORK_CHILD_PID: u32 = 4;

pub(crate) const GENERIC_NAME: u32 = 1;
pub(crate) const GENERIC_FIELD: u32 = 2;
pub(crate) const GENERIC_FIELD_NAME: u32 = 1;
pub(crate) const GENERIC_FIELD_STR: u32 = 3;
pub(crate) const GENERIC_FIELD_INT: u32 = 4;
pub(crate) const GENERIC_FIELD_UINT: u32 = 5;

// What only the reader needs.
pub(crate) const PACKET_CLOCK_SNAPSHOT: u32 = 6;
pub(crate) const PACKET_TRACK_EVENT: u32 = 11;
pub(crate) const PACKET_FTRACE_STATS: u32 = 34;
pub(crate) const PACKET_PREVIOUS_DROPPED: u32 = 42;
pub(crate) const PACKET_COMPRESSED: u32 = 50;
pub(crate) const PACKET_TRACK_DESCRIPTOR: u32 = 60;

pub(crate) const SNAPSHOT_CLOCKS: u32 = 1;
pub(crate) const CLOCK_ID: u32 = 1;
pub(crate) const CLOCK_TIMESTAMP: u32 = 2;

pub(crate) const STATS_PHASE: u32 = 1;
pub(crate) const STATS_CPU: u32 = 2;
pub(crate) const CPU_STATS_CPU: u32 = 1;
pub(crate) const CPU_STATS_OVERRUN: u32 = 3;
pub(crate) const CPU_STATS_DROPPED: u32 = 8;

pub(crate) const BUNDLE_LOST_EVENTS: u32 = 3;
pub(crate) const BUNDLE_COMPACT_SCHED: u32 = 4;
pub(crate) const BUNDLE_CLOCK: u32 = 5;
pub(crate) const BUNDLE_ERROR: u32 = 8;
pub(crate) const BUNDLE_GENERIC_DESCRIPTOR: u32 = 11;
pub(crate) const DESCRIPTOR_FIELD_ID: u32 = 1;
pub(crate) const DESCRIPTOR_PROTO: u32 = 2;

pub(crate) const COMPACT_SWITCH_TIMESTAMP: u32 = 1;
pub(crate) const COMPACT_SWITCH_PREV_STATE: u32 = 2;
pub(crate) const COMPACT_SWITCH_NEXT_PID: u32 = 3;
pub(crate) const COMPACT_SWITCH_NEXT_PRIO: u32 = 4;
pub(crate) const COMPACT_INTERN_TABLE: u32 = 5;
pub(crate) const COMPACT_SWITCH_NEXT_COMM: u32 = 6;
pub(crate) const COMPACT_WAKING_TIMESTAMP: u32 = 7;
pub(crate) const COMPACT_WAKING_PID: u32 = 8;
pub(crate) const COMPACT_WAKING_TARGET_CPU: u32 = 9;
pub(crate) const COMPACT_WAKING_PRIO: u32 = 10;
pub(crate) const COMPACT_WAKING_COMM: u32 = 11;
pub(crate) const COMPACT_WAKING_FLAGS: u32 = 12;

pub(crate) const EVENT_COMMON_FLAGS: u32 = 5;

pub(crate) const TRACK_UUID: u32 = 1;
pub(crate) const TRACK_NAME: u32 = 2;
pub(crate) const TRACK_THREAD: u32 = 4;
pub(crate) const TRACK_PARENT: u32 = 5;
pub(crate) const TRACK_COUNTER: u32 = 8;
pub(crate) const THREAD_DESCRIPTOR_PID: u32 = 1;
pub(crate) const THREAD_DESCRIPTOR_TID: u32 = 2;
pub(crate) const COUNTER_UNIT: u32 = 3;
pub(crate) const TRACK_EVENT_TYPE: u32 = 9;
pub(crate) const TRACK_EVENT_TRACK: u32 = 11;
pub(crate) const TRACK_EVENT_COUNTER_VALUE: u32 = 30;

/// Of protobuf's own `DescriptorProto` and `FieldDescriptorProto`.
pub(crate) const PROTO_NAME: u32 = 1;
pub(crate) const PROTO_FIELD: u32 = 2;
pub(crate) const PROTO_FIELD_NUMBER: u32 = 3;
pub(crate) const PROTO_FIELD_TYPE: u32 = 5;
