//! What can go wrong with an image, in the words of whoever asked for it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::Digest;

/// A shared cause: callers that joined one pull all get the same error.
pub type Cause = Arc<dyn std::error::Error + Send + Sync>;

/// The result of every fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an image operation failed. Cheap to clone, so that joined callers share it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not an image reference.
    #[error("invalid image reference {reference:?}: {reason}")]
    InvalidReference {
        /// The text as it was given.
        reference: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No image here has this id or name.
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
        /// What the registry said.
        reason: String,
    },
    /// The registry wants (other) credentials.
    #[error("pulling {what}: {host} requires valid credentials: {reason}")]
    Unauthenticated {
        /// Image or blob that was asked for.
        what: String,
        /// The registry host that answered.
        host: String,
        /// What the registry said.
        reason: String,
    },
    /// The registry knows who asks and refuses.
    #[error("pulling {what}: {host} denies access: {reason}")]
    PermissionDenied {
        /// Image or blob that was asked for.
        what: String,
        /// The registry host that answered.
        host: String,
        /// What the registry said.
        reason: String,
    },
    /// The registry can't be reached, is overloaded or stopped answering.
    #[error("pulling {what}: registry {host} is unavailable: {reason}")]
    RegistryUnavailable {
        /// Image or blob that was asked for.
        what: String,
        /// The registry host.
        host: String,
        /// What happened, after all retries.
        reason: String,
    },
    /// The registry answered something outside its protocol.
    #[error("pulling {what}: {host} violated the registry protocol: {reason}")]
    Protocol {
        /// Image or blob that was asked for.
        what: String,
        /// The registry host.
        host: String,
        /// What was odd about the answer.
        reason: String,
    },
    /// Bytes are not what their digest promises.
    #[error("{what} has digest {actual}, expected {expected}; the content was discarded")]
    DigestMismatch {
        /// What was hashed.
        what: String,
        /// The digest promised.
        expected: Box<Digest>,
        /// The digest of the bytes.
        actual: Box<Digest>,
    },
    /// The file system below the image root has no space or inodes left.
    #[error(
        "no space left while {doing}; free some space, or move the image root to a larger disk"
    )]
    DiskFull {
        /// What needed the space.
        doing: String,
    },
    /// A size, count or depth is beyond the configured limit.
    #[error("{what} exceeds the limit of {limit}")]
    TooLarge {
        /// What is too large.
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
        /// Which part of which image.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A registry or credential configuration file is wrong.
    #[error("registry configuration {path}: {reason}")]
    Configuration {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The image's registry is blocked.
    #[error("cannot pull {image}: its registry is blocked (`blocked = true` in {place})")]
    Blocked {
        /// The name that was asked for.
        image: String,
        /// The file and line that say so.
        place: String,
    },
    /// What a name without a registry means can't be told.
    #[error("cannot resolve the short name {name:?}: {reason}")]
    ShortName {
        /// The name as it was given.
        name: String,
        /// Why, and what to do.
        reason: String,
    },
    /// None of the registries that are searched has the image.
    #[error("cannot pull the short name {name:?} under any of its full names ({rule}): {reasons}")]
    Searched {
        /// The name as it was given.
        name: String,
        /// The file and line that name the registries.
        rule: String,
        /// What each of them said.
        reasons: String,
        /// The last of them.
        last: Box<Error>,
    },
    /// The signature policy does not allow the image.
    #[error("{policy} ({place}) does not allow {image}: {reason}")]
    NotAllowed {
        /// The name that was asked for.
        image: String,
        /// The policy's file.
        policy: String,
        /// Where it says so.
        place: String,
        /// What the image lacks.
        reason: String,
    },
    /// A signature policy, or a key that it names, is wrong; until it is mended, no image that it
    /// is about may be used.
    #[error("signature policy {path}: {reason}")]
    Policy {
        /// The file.
        path: String,
        /// What is wrong with it, and where.
        reason: String,
    },
    /// It is encrypted, and nothing here opens it.
    #[error("decrypting {what}: {reason}")]
    NoKey {
        /// Which image or layer.
        what: String,
        /// Why no key opens it.
        reason: String,
    },
    /// A key for layers, or the file that names key providers, is wrong.
    #[error("decryption keys in {path}: {reason}")]
    Keys {
        /// The file or directory.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The layer cannot be had with the SELinux label that the node's policy asks for. It may be sound.
    #[error("{layer} cannot be used with the SELinux label {label}: {reason}; {way_out}")]
    Unlabelled {
        /// Which layer.
        layer: String,
        /// The label.
        label: String,
        /// What was said.
        reason: String,
        /// What is to be done.
        way_out: &'static str,
    },
    /// Another process holds the image root.
    #[error("image root {0} is in use by another process")]
    Busy(String),
    /// As many do the same already as may.
    #[error("{0}")]
    Crowded(String),
    /// What was found under this id is not what is here now.
    #[error("image {0} changed while it was being read; try again")]
    Changed(Digest),
    /// The local store failed.
    #[error("{doing}")]
    Store {
        /// What was being done to what.
        doing: String,
        /// The reason.
        #[source]
        source: Cause,
    },
    /// A layer on disk is not what was put there.
    #[error("layer {layer} is damaged: {reason}; `orlop image verify --repair` pulls it again")]
    Damaged {
        /// Its name on disk.
        layer: Digest,
        /// What is wrong with it.
        reason: String,
    },
    /// The operation was given up because the store is shutting down.
    #[error("{0} was cancelled")]
    Cancelled(String),
}

impl Error {
    /// The word before the message by which kubelets know the failure.
    pub fn first_word(&self) -> Option<&'static str> {
        match self {
            Self::Searched { last, .. } => last.first_word(),
            Self::RegistryUnavailable { .. } => Some("RegistryUnavailable"),
            Self::NotAllowed { .. } | Self::Policy { .. } => Some("SignatureValidationFailed"),
            _ => None,
        }
    }

    /// Wraps an IO error of the local store, telling a full disk apart.
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

    /// Like [`Error::io`] for `doing` something to `path`.
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

    /// Whether trying the same again may help without anybody's doing.
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

    /// Whether it is this node's, so that no other registry would help.
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
