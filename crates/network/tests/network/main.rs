//! Networks of pods, done in process and by plugins, in network namespaces of the test's own.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests fail by panicking, and read what they wrote themselves"
)]

mod bad_input;
mod crowd;
mod differential;
mod firewall;
mod legacy;
mod life;
mod masquerade;
mod port_maps;
mod sctp;
mod strangers;
mod support;
mod traffic;
mod vlans;
