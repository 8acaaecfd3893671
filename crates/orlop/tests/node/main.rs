//! The node agent with a real runtime: what somebody who writes manifests would notice.
//!
//! The same tests run on Debian's containerd with `ORLOP_TEST_PEER=containerd`.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::large_futures,
    clippy::unwrap_used,
    reason = "tests fail by panicking, read what they wrote themselves, and are not hot"
)]

mod admission;
mod api;
mod apply;
mod checkpoint;
mod crowd;
mod docker;
mod listeners;
mod manifests;
mod restart;
mod shutdown;
mod sources;
mod starting;
mod streams;
mod up;
mod world;
