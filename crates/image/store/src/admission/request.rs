//! A request for a pull: the name as the client wrote it, and what it resolves to.

use std::sync::Arc;

use crate::Reference;
use crate::decryption::KeysOf;
use crate::policy::{Policy, PolicyFor};
use crate::registry::{Credentials, Keyring};

/// What to pull.
#[derive(Debug, Clone, Default)]
pub struct PullRequest {
    /// The image, in any form that Docker takes.
    pub reference: String,
    /// Credentials for its registry.
    pub auth: Option<Credentials>,
    /// Whose policy decides whether it may be pulled.
    pub policy: PolicyFor,
    /// The handler whose guests get the layers by themselves: none is fetched. Empty: all are.
    pub handler: String,
    /// How much of its layers must be here when it is done.
    pub wait: Wait,
}

/// How much of an image's layers must be here when a pull is done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Wait {
    /// Layers may come as they are read, where [`crate::Config::lazy`] says so.
    #[default]
    ForNothing,
    /// All of them.
    ForAll,
    /// All of them, and none that was made from a table of contents: for those who need the archives.
    ForOrdinaryLayers,
}

/// What to pull, with which credentials, and by whose leave.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Request {
    pub(crate) reference: Reference,
    pub(crate) keyring: Keyring,
    pub(crate) policy: Option<Arc<Policy>>,
    /// For whose guests, who get the layers by themselves; empty: for this node.
    pub(crate) handler: String,
    /// How much of the layers must be here in the end.
    pub(crate) wait: Wait,
    /// Whose keys may open encrypted layers.
    pub(crate) keys: KeysOf,
}
