//! The command line.

mod config;
mod daemon;
mod entry;
mod log_level;

pub(crate) use entry::main;
