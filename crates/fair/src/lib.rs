//! The Linux fair scheduling class as pure policy: EEVDF and CFS, every version difference a value.
