//! Errors of image operations.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::Digest;

/// A shared cause: all callers that joined one pull get the same error.
pub type Cause = Arc<dyn std::error::Error + Send + Sync>;

/// The result of every fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of an image operation. Cheap to clone, because joined callers share it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not an image reference.
    #[error("invalid image reference {reference:?}: {reason}")]
    InvalidReference {
        /// The given text.
        reference: String,
        /// The problem.
        reason: String,
    },
    /// No stored image has this id or name.
    #[error("image {0:?} is not stored on this node; pull it first")]
    NotFound(String),
    /// An id prefix matches more than one image.
    #[error("image id {0:?} is ambiguous; give more digits")]
    Ambiguous(String),
    /// The registry has no such image, tag or blob.
    #[error("{what} does not exist on {host}: {reason}")]
    NotInRegistry {
        /// Image or blob that was asked for.
        what: String,
        /// The registry host that answered.
        host: String,
        /// The registry's message.
        reason: String,
    },
    /// The registry requires credentials, or other ones.
    #[error("pulling {what}: {host} requires valid credentials: {reason}")]
    Unauthenticated {
        /// Image or blob that was asked for.
        what: String,
        /// The registry host that answered.
        host: String,
        /// The registry's message.
        reason: String,
    },
    /// The registry knows the caller and denies access.
    #[error("pulling {what}: {host} denies access: {reason}")]
    PermissionDenied {
        /// Image or blob that was asked for.
        what: String,
        /// The registry host that answered.
        host: String,
        /// The registry's message.
        reason: String,
    },
    /// The registry cannot be reached, is overloaded or stopped answering.
    #[error("pulling {what}: registry {host} is unavailable: {reason}")]
    RegistryUnavailable {
        /// Image or blob that was asked for.
        what: String,
        /// The registry host.
        host: String,
        /// The failure, after all retries.
        reason: String,
    },
    /// The registry's answer violates the protocol.
    #[error("pulling {what}: {host} violated the registry protocol: {reason}")]
    Protocol {
        /// Image or blob that was asked for.
        what: String,
        /// The registry host.
        host: String,
        /// The violation.
        reason: String,
    },
    /// The bytes do not match their digest.
    #[error("{what} has digest {actual}, expected {expected}; the content was discarded")]
    DigestMismatch {
        /// Name of the hashed content.
        what: String,
        /// The expected digest.
        expected: Box<Digest>,
        /// The digest of the bytes.
        actual: Box<Digest>,
    },
    /// The file system below the image root has no space or inodes left.
    #[error(
        "no space left while {doing}; free some space, or move the image root to a larger disk"
    )]
    DiskFull {
        /// The operation that needed the space.
        doing: String,
    },
    /// A size, count or depth exceeds the configured limit.
    #[error("{what} exceeds the limit of {limit}")]
    TooLarge {
        /// Name of the object that is too large.
        what: String,
        /// The limit, with its unit.
        limit: String,
    },
    /// The image uses a format that is not supported.
    #[error("unsupported image: {0}")]
    Unsupported(String),
    /// The image contradicts its format: malformed JSON, tar or compression.
    #[error("{what} is malformed: {reason}")]
    InvalidImage {
        /// The part of the image, with the image's name.
        what: String,
        /// The problem.
        reason: String,
    },
    /// A registry or credential configuration file is wrong.
    #[error("registry configuration {path}: {reason}")]
    Configuration {
        /// The file.
        path: String,
        /// The problem.
        reason: String,
    },
    /// The image's registry is blocked.
    #[error("cannot pull {image}: its registry is blocked (`blocked = true` in {place})")]
    Blocked {
        /// The requested name.
        image: String,
        /// The file and line of the rule.
        place: String,
    },
    /// A name without a registry cannot be resolved.
    #[error("cannot resolve the short name {name:?}: {reason}")]
    ShortName {
        /// The given name.
        name: String,
        /// The reason, and what to do.
        reason: String,
    },
    /// None of the searched registries has the image.
    #[error("cannot pull the short name {name:?} under any of its full names ({rule}): {reasons}")]
    Searched {
        /// The given name.
        name: String,
        /// The file and line that list the registries.
        rule: String,
        /// The errors of all registries.
        reasons: String,
        /// The last error.
        last: Box<Error>,
    },
    /// The signature policy does not allow the image.
    #[error("{policy} ({place}) does not allow {image}: {reason}")]
    NotAllowed {
        /// The requested name.
        image: String,
        /// The policy's file.
        policy: String,
        /// The place in the file.
        place: String,
        /// The requirement that the image does not fulfil.
        reason: String,
    },
    /// A signature policy, or a key that it names, is invalid. No image that the policy applies to may be used until
    /// that is fixed.
    #[error("signature policy {path}: {reason}")]
    Policy {
        /// The file.
        path: String,
        /// The problem, and the place in the file.
        reason: String,
    },
    /// The image or layer is encrypted, and no available key decrypts it.
    #[error("decrypting {what}: {reason}")]
    NoKey {
        /// The image or layer.
        what: String,
        /// The reason why no key decrypts it.
        reason: String,
    },
    /// A key for layers, or the file that names key providers, is invalid.
    #[error("decryption keys in {path}: {reason}")]
    Keys {
        /// The file or directory.
        path: String,
        /// The problem.
        reason: String,
    },
    /// The layer cannot get the SELinux label that the node's policy requires. Its content may be intact.
    #[error("{layer} cannot be used with the SELinux label {label}: {reason}; {way_out}")]
    Unlabelled {
        /// The layer.
        layer: String,
        /// The label.
        label: String,
        /// The error of the kernel.
        reason: String,
        /// Advice on how to solve the problem.
        way_out: &'static str,
    },
    /// Another process uses the image root.
    #[error("image root {0} is in use by another process")]
    Busy(String),
    /// The limit of concurrent operations is reached, or the operation conflicts with stored data.
    #[error("{0}")]
    Crowded(String),
    /// The image with this id has changed since it was found.
    #[error("image {0} changed while it was being read; try again")]
    Changed(Digest),
    /// The local store failed.
    #[error("{doing}")]
    Store {
        /// The failed operation and its object.
        doing: String,
        /// The cause.
        #[source]
        source: Cause,
    },
    /// A layer on disk is damaged.
    #[error("layer {layer} is damaged: {reason}; `orlop image verify --repair` pulls it again")]
    Damaged {
        /// The layer's name on disk.
        layer: Digest,
        /// The problem.
        reason: String,
    },
    /// The operation was cancelled because the store is shutting down or the pull was abandoned.
    #[error("{0} was cancelled")]
    Cancelled(String),
}

impl Error {
    /// Returns the prefix of the message by which the kubelet recognizes the failure.
    pub fn first_word(&self) -> Option<&'static str> {
        match self {
            Self::Searched { last, .. } => last.first_word(),
            Self::RegistryUnavailable { .. } => Some("RegistryUnavailable"),
            Self::NotAllowed { .. } | Self::Policy { .. } => Some("SignatureValidationFailed"),
            _ => None,
        }
    }

    /// Wraps an I/O error of the local store, and detects a full disk.
    pub(crate) fn io(doing: impl Into<String>, source: io::Error) -> Self {
        let doing = doing.into();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull { doing },
            _ => Self::Store {
                doing,
                source: Arc::new(source),
            },
        }
    }

    /// Wraps an I/O error like [`Error::io`], for the operation `doing` on `path`.
    pub(crate) fn at(doing: &str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::io(format!("{doing} {}", path.display()), source.into())
    }

    pub(crate) fn store(
        doing: impl Into<String>,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        Self::Store {
            doing: doing.into(),
            source: Arc::new(source),
        }
    }

    pub(crate) fn invalid(what: impl Into<String>, reason: impl ToString) -> Self {
        Self::InvalidImage {
            what: what.into(),
            reason: reason.to_string(),
        }
    }

    pub(crate) fn too_large(what: impl Into<String>, limit: impl ToString) -> Self {
        Self::TooLarge {
            what: what.into(),
            limit: limit.to_string(),
        }
    }

    pub(crate) fn keys(path: &Path, reason: impl ToString) -> Self {
        Self::Keys {
            path: path.display().to_string(),
            reason: reason.to_string(),
        }
    }

    /// Returns whether a retry may succeed without any intervention.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Searched { last, .. } => last.is_transient(),
            Self::RegistryUnavailable { .. }
            | Self::DiskFull { .. }
            | Self::Busy(_)
            | Self::Changed(_) => true,
            _ => false,
        }
    }

    /// Returns whether the cause is this node, so that another registry would not help.
    pub(crate) fn is_our_own(&self) -> bool {
        matches!(
            self,
            Self::Store { .. }
                | Self::DiskFull { .. }
                | Self::Busy(_)
                | Self::Crowded(_)
                | Self::Cancelled(_)
                | Self::Policy { .. }
        )
    }
}
