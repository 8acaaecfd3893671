//! What the kernel samples of the threads of a process.

mod event;
mod record;
mod threads;

pub(crate) use threads::Threads;
