//! The backends that answer CRI calls.

#[cfg_attr(not(feature = "docker"), path = "without_docker.rs")]
mod docker;
mod native;
mod services;
mod settings;
mod start;

pub(crate) use docker::policies;
pub(crate) use native::engine_config;
pub(crate) use start::{Metrics, Reconfigurable, Running, start};
