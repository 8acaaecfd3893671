//! Who answers the CRI calls.

mod native;
mod start;

pub(crate) use start::{Running, start};
