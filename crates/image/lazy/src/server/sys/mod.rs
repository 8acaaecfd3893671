//! System calls without a safe wrapper.

mod map;
mod process;

pub(crate) use map::{SharedMap, Slot};
pub(crate) use process::{Fork, close_from, exit_now, fork};
