//! The server of lazy layers, and who reads them.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "tests fail by panicking, and read what they wrote themselves"
)]

mod erofs;
mod idle;
mod reads;
mod socket;
mod support;
mod take_over;
