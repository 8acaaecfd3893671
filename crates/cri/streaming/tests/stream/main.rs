//! Sessions between the crate's server and clients, its own and others'.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "tests fail by panicking, and read what they wrote themselves"
)]

mod bad_input;
mod containerd;
mod fixture;
mod fuzzed;
mod leaks;
mod port_forward;
mod remote_command;
mod tls;
mod websocket_peer;
