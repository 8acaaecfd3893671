//! The pull side of the OCI distribution protocol.

mod auth;
mod challenge;
mod credentials;
mod hosts;
mod node_credentials;
mod remote;
mod retry;
mod transport;

pub use credentials::Credentials;
pub(crate) use hosts::Host;
pub(crate) use remote::{Body, Remote};
pub(crate) use retry::{Attempt, Capability, Try};
pub(crate) use transport::Transport;

/// Entry points for fuzzing.
#[doc(hidden)]
pub mod fuzz {
    /// Parses a `hosts.toml`.
    pub fn hosts(text: &str) {
        let _ = super::hosts::parse(text, std::path::Path::new("/"), "registry.example");
    }

    /// Parses a `WWW-Authenticate` header.
    pub fn challenge(text: &str) {
        let _ = super::challenge::parse(text);
    }
}
