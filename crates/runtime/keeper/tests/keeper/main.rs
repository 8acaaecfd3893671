//! The keeper of a pod, driven by the client that the daemon has.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "tests fail by panicking, and read what they wrote themselves"
)]

mod attach;
mod end;
mod exec;
mod life;
mod logs;
mod older_daemon;
mod pod;
mod program;
mod support;
