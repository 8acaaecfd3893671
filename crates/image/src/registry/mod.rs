//! The pull side of the OCI distribution protocol.

mod auth;
mod body;
mod challenge;
mod credentials;
mod documents;
mod hosts;
mod node_credentials;
mod remote;
mod retry;
mod transport;

pub(crate) use body::Body;
pub use credentials::Credentials;
pub(crate) use hosts::Host;
pub(crate) use remote::Remote;
pub(crate) use retry::{Attempt, Capability, Try};
pub(crate) use transport::Transport;
