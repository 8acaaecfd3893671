//! Pull requests: the name as the client wrote it, and the resolved form.

use std::sync::Arc;

use crate::Reference;
use crate::decryption::KeysOf;
use crate::policy::{Policy, PolicyFor};
use crate::registry::{Credentials, Keyring};

/// A request to pull an image.
#[derive(Debug, Clone, Default)]
pub struct PullRequest {
    /// The image name, in any form that Docker accepts.
    pub reference: String,
    /// Credentials for its registry.
    pub auth: Option<Credentials>,
    /// The namespace whose policy applies.
    pub policy: PolicyFor,
    /// Runtime handler whose guests pull the layers themselves, so that none is fetched. Empty to fetch all layers.
    pub handler: String,
    /// How much of the layers must be on disk at the end of the pull.
    pub wait: Wait,
}

/// How much of an image's layers must be on disk at the end of a pull.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Wait {
    /// Layers may be lazy, if [`crate::Config::lazy`] allows it.
    #[default]
    ForNothing,
    /// All layers are complete.
    ForAll,
    /// All layers are complete and have an archive: none was built from a table of contents.
    ForOrdinaryLayers,
}

/// A resolved pull request with its credentials and policy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Request {
    pub(crate) reference: Reference,
    pub(crate) keyring: Keyring,
    pub(crate) policy: Option<Arc<Policy>>,
    /// Runtime handler whose guests pull the layers themselves; empty for this node.
    pub(crate) handler: String,
    /// How much of the layers must be on disk at the end.
    pub(crate) wait: Wait,
    /// The keys that may decrypt layers.
    pub(crate) keys: KeysOf,
}
