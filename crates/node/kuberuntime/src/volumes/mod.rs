//! The pods' volumes: creates them beneath the pod's directory, and builds the mounts for the
//! runtime.

mod atomic;
mod dirs;
mod empty_dir;
mod env_file;
mod error;
mod host_path;
mod mounts;
mod owner;
mod payload;
mod prepare;
mod sub_path;
mod usage;

pub(crate) use dirs::PodDirs;
pub(crate) use env_file::read_env_files;
pub(crate) use error::VolumeError;
pub(crate) use mounts::{MountInput, container_mounts, termination_log};
pub(crate) use prepare::{Place, Places, checked_paths, parts_of_node, paths_of_node, prepare};
pub(crate) use usage::{has_limits, over_limit};
