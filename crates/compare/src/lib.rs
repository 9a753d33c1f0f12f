//! Samples, statistics and comparison tables as the kernel lists use them.
