//! The docker backend, on engines that the test plays.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "tests fail by panicking, and read what they wrote themselves"
)]

mod config;
mod policies;
mod restart;
