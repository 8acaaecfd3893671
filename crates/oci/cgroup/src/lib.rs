//! One interface over cgroup v1, v2 and the systemd driver.
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests read what they wrote themselves"
    )
)]

mod cgroup;
mod entry;
mod error;
mod hierarchy;
mod hurry;
mod limits;
mod oom;
mod owed;
mod path;
mod processes;
mod raised_limit;
mod readiness;
mod signal;
mod stats;
mod systemd;
mod weight;

pub use cgroup::Cgroup;
pub use entry::Entry;
pub use error::Error;
pub use hierarchy::{Hierarchies, Version, hugepage_sizes};
pub use limits::Limits;
pub use oom::OomWatch;
pub use path::{CgroupPath, Driver, PathError};
pub use processes::{processes_below, processes_in};
pub use stats::{
    CpuStats, DeviceStats, HugetlbStats, MemoryStats, OomCounts, PidsStats, Pressure,
    PressureStats, Stall, Stats, StatsReader,
};
pub use systemd::{Property, Systemd, Value, limits_as_properties};
pub use weight::{cpu_shares, cpu_weight, io_weight};
