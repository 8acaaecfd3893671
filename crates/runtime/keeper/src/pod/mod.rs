//! The pod's surroundings: cgroups, namespaces, what is set and mounted in them.

mod arguments;
mod init;
mod mounts;
mod namespaces;
mod place;
mod surroundings;
mod sysctl;
mod view;

pub(crate) use mounts::{Placed, unmount_all};
pub(crate) use place::set_open_files;
pub(crate) use surroundings::{Given, Pod, lock_dir};
pub(crate) use view::{By, View};
