//! The node agent with a real runtime: what somebody who writes manifests would notice.
//!
//! The same tests run on Debian's containerd with `ORLOP_TEST_PEER=containerd`.
#![allow(
    clippy::disallowed_methods,
    reason = "tests read what they wrote themselves"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::large_futures,
    reason = "tests: a panic is a failure, and nothing here is hot"
)]

mod admission;
mod api;
mod apply;
mod checkpoint;
mod crowd;
mod docker;
mod manifests;
mod restart;
mod shutdown;
mod sources;
mod starting;
mod streams;
mod up;
mod world;
