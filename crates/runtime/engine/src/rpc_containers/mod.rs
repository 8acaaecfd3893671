//! Handlers of `orlop.v1.Containers`, one file per RPC.
#![allow(clippy::unused_async, reason = "all calls have one shape")]

pub mod list_changes;
