//! orlop's own client, at the endpoints of orlop and of others.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "tests fail by panicking, and read what they wrote themselves"
)]

mod asked;
mod crictl;
mod interrupts;
mod live;
mod terminal;
mod tls;
mod words;
mod world;
