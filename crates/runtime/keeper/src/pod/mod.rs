//! The pod's cgroups, namespaces, kernel parameters and mounts.

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
