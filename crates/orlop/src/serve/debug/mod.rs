//! Diagnostics of a running daemon: running work and memory usage.

mod memory;
mod tasks;
mod threads;

pub(super) use memory::memory;
pub(super) use tasks::tasks;
