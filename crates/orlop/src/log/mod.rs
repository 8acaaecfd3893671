//! The daemon's own log.

mod format;
mod journal;
mod one_line;
mod panics;
mod setup;

pub(crate) use panics::log_panics;
#[cfg(feature = "node")]
pub(crate) use setup::start_in_file;
pub(crate) use setup::{Levels, start};
