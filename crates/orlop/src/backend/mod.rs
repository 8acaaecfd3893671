//! Who answers the CRI calls.

mod bare;
mod start;

pub(crate) use start::start;
