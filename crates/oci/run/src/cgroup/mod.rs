//! cgroups: a container's location, limits, and processes.
//!
//! ```text
//! plan ─► Cgroup (location only)        ─► make: directories (or a systemd scope), limits
//!            │ state.json                    └─► Entry ─► a process born in it
//!            └─► later verbs: entry, pids, freeze, kill, update, stats, remove
//! ```

mod devices;
mod dirs;
mod entry;
mod files;
mod holder;
mod life;
mod limits;
mod make;
mod mounts;
mod place;
mod plan;
mod properties;
mod seen;
mod stats;
mod systemd;
mod unit;
mod update;

pub(crate) use entry::{Entry, Ferry};
pub(crate) use holder::{Holder, release};
pub(crate) use place::{Cgroup, Wanted};
pub(crate) use stats::Stats;

#[cfg(test)]
mod live_tests;
