//! The command line.

mod completion;
mod config;
mod daemon;
mod entry;
mod log_level;
mod man;

pub(crate) use completion::{CompleteArgs, CompletionArgs};
pub(crate) use entry::main;
