//! Running a network's plugins: as programs, or in process.

mod chain;
mod exec;

pub(crate) use chain::{Chain, Progress, Target};
