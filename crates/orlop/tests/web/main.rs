//! The page's server with a real runtime behind it: what a browser is told, and what it is not.
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

mod browser;
mod costs;
mod daemon;
mod pages;
mod secrets;
mod world;
