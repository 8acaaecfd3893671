//! System calls that no safe wrapper covers.

mod map;
mod process;

pub(crate) use map::{SharedMap, Slot};
pub(crate) use process::{Fork, close_from, exit_now, fork};
