//! What is read from this machine rather than from the runtime: the processes of a container and
//! where they are. Only with a runtime on this machine does it mean anything.

mod cgroup;
mod process;

pub(super) use cgroup::{Cgroup, Hierarchy, hierarchies};
pub(super) use process::{Process, processes};
