//! Who answers the CRI calls.

mod docker;
mod native;
mod start;

pub(crate) use native::engine_config;
pub(crate) use start::{Metrics, Running, start};
