//! Pods from manifests, on a runtime: ours, or with `ORLOP_TEST_PEER=containerd` Debian's
//! containerd, of which the same is expected.
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

mod checks;
mod files;
mod images;
mod lifecycle;
mod logs;
mod lost;
mod many;
mod probes;
mod reboot;
mod restarts;
mod strangers;
mod users;
mod world;
