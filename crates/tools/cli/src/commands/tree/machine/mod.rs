//! Data from this machine instead of the runtime: processes of a container and their cgroups. It is only meaningful
//! with a local runtime.

mod cgroup;
mod process;

pub(super) use cgroup::{Cgroup, Hierarchy, hierarchies};
pub(super) use process::{Process, processes};
