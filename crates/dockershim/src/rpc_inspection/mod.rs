//! Calls of `orlop.v1.Inspection`, one file each.
#![allow(clippy::unused_async, reason = "all calls have one shape")]

pub(crate) mod examine;
pub(crate) mod get_state;
pub(crate) mod list_events;
pub(crate) mod list_traces;
