//! The backends that answer CRI calls.

mod common;
mod docker;
mod native;
mod start;

pub(crate) use docker::policies;
pub(crate) use native::engine_config;
pub(crate) use start::{Metrics, Reconfigurable, Running, start};
