//! The server of lazy layers, and who reads them.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "tests fail by panicking, and read what they wrote themselves"
)]

/// Begins a test: skips it where no server can be tried, else gives a node.
macro_rules! node {
    () => {{
        orlop_testkit::skip_unless!(crate::support::may_serve());
        crate::support::Node::new()
    }};
}

mod erofs;
mod idle;
mod reads;
mod socket;
mod support;
mod take_over;
