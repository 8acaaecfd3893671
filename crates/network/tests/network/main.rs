//! Networks of pods, done in process and by plugins, in network namespaces of the test's own.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests fail by panicking, and read what they wrote themselves"
)]

/// Begins a test on a node with a network; skips it where there is no nft to look by.
macro_rules! nft_node {
    ($conf:expr) => {{
        orlop_testkit::skip_unless!(orlop_testkit::machine::has_program("nft"));
        crate::support::Node::with($conf)
    }};
}

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
