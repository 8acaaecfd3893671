//! What a daemon says of itself to people who look for what is wrong: what waits, and who holds memory.

mod memory;
mod tasks;
mod threads;

pub(super) use memory::memory;
pub(super) use tasks::tasks;
