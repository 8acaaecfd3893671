//! Runs the plugins of a network: programs, or the built-in ones.

mod chain;
mod exec;

pub(crate) use chain::{Chain, Progress, Target};
