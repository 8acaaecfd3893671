//! The daemon's own log.

mod format;
mod journal;
mod one_line;
mod panics;
mod setup;

pub(crate) use panics::log_panics;
pub(crate) use setup::{Levels, start, start_in_file};
