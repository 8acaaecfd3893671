//! The pull side of the OCI distribution protocol.

mod auth;
mod body;
mod challenge;
mod connections;
mod credentials;
mod documents;
mod explain;
mod failure;
mod host;
mod hosts;
mod keyring;
mod lookaside;
mod node_credentials;
mod reach;
mod referrers;
mod remote;
mod retry;
mod sources;
mod transport;

pub(crate) use body::Body;
pub(crate) use challenge::parse as parse_challenge;
pub use credentials::Credentials;
pub use explain::{AskedHost, Explained, ExplainedName};
pub(crate) use host::Host;
pub use hosts::check_registry_hosts;
pub(crate) use hosts::parse as parse_hosts;
pub(crate) use keyring::Keyring;
pub use keyring::NamespaceCredentials;
pub use node_credentials::check as check_credentials;
pub(crate) use referrers::{Referrer, listed as listed_referrers};
pub(crate) use remote::Remote;
pub(crate) use retry::{Attempt, Capability, Try};
pub(crate) use transport::Transport;
