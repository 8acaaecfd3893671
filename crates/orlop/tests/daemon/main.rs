//! The daemon itself: how it starts, lives, ends, and what it costs.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "tests fail by panicking, and read what they wrote themselves"
)]

mod life;
mod log;
mod profile;
mod size;
mod start;
mod unit;
