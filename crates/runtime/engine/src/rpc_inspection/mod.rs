//! Handlers of `orlop.v1.Inspection`, one file per RPC.
#![allow(clippy::unused_async, reason = "all calls have one shape")]

pub mod examine;
pub mod get_state;
pub mod list_events;
pub mod list_traces;
