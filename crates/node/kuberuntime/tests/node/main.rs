//! Pods from manifests, on a runtime: ours, or with `ORLOP_TEST_PEER=containerd` Debian's
//! containerd, of which the same is expected.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::large_futures,
    clippy::unwrap_used,
    reason = "tests fail by panicking, read what they wrote themselves, and are not hot"
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
