//! Runs the plugins of a network, as programs or in process.

mod chain;
mod exec;

pub(crate) use chain::{Chain, Progress, Target};
