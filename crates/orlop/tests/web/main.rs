//! The page's server with a real runtime behind it: what a browser is told, and what it is not.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::large_futures,
    clippy::unwrap_used,
    reason = "tests fail by panicking, read what they wrote themselves, and are not hot"
)]

mod browser;
mod costs;
mod daemon;
mod manifests;
mod opening;
mod pages;
mod secrets;
mod world;
