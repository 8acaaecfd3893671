//! One file per call of `orlop.v1.Containers`.
#![allow(clippy::unused_async, reason = "all calls have one shape")]

pub mod list_changes;
