//! The pod's surroundings: cgroups, namespaces, what is set and mounted in them.

mod arguments;
mod init;
mod namespaces;
mod place;
mod surroundings;
mod sysctl;
mod view;

pub(crate) use surroundings::Pod;
