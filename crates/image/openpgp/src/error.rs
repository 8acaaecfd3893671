//! Errors of parsing, and reasons to refuse a signature.

use std::fmt;

use crate::fingerprint::Fingerprint;

/// A parse error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The input is not OpenPGP data.
    #[error("it is not OpenPGP: {0}")]
    NotOpenPgp(&'static str),
    /// The ASCII armor is damaged.
    #[error("its ASCII armor is damaged: {0}")]
    Armor(&'static str),
    /// The input is shorter than announced.
    #[error("it ends in the middle of a packet")]
    Truncated,
    /// A packet's content is invalid for its type.
    #[error("{0} in it is malformed")]
    Malformed(&'static str),
    /// A limit is exceeded.
    #[error("{what} in it exceeds the limit of {limit}")]
    TooLarge {
        /// The limited object.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A feature is not supported.
    #[error("{0} in it is not supported")]
    Unsupported(String),
    /// A key file contains a private key.
    #[error("it contains a private key; export the public key with `gpg --export`")]
    Private,
    /// A key file contains no key.
    #[error("it has no public key")]
    NoKey,
    /// The input is not exactly one message with one signature.
    #[error("it is not a message with one signature: {0}")]
    Shape(String),
}

/// The name of a key for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyName {
    /// The fingerprint of the signing key: the primary key, or one of its subkeys.
    pub fingerprint: Fingerprint,
    /// The fingerprint of the primary key, if a subkey signed.
    pub primary: Option<Fingerprint>,
    /// The claimed user ID.
    pub user: Option<String>,
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.fingerprint)?;
        if let Some(primary) = &self.primary {
            write!(f, ", a subkey of {primary}")?;
        }
        match &self.user {
            Some(user) => write!(f, " ({user})"),
            None => Ok(()),
        }
    }
}

/// The reason to refuse a signature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No trusted key made the signature.
    #[error("it is signed with the unknown key {0}")]
    UnknownKey(String),
    /// The signature does not match the content.
    #[error("it is not a valid signature of the key {0}")]
    Wrong(KeyName),
    /// The hash is weak: the content could be replaced.
    #[error("it uses {0}, which is too weak")]
    WeakHash(&'static str),
    /// The signature cannot be verified here.
    #[error("{0} is not supported")]
    Unsupported(String),
    /// The signature has an unknown critical subpacket, which requires refusal.
    #[error("it has a critical subpacket of the unknown type {0}")]
    Critical(u8),
    /// The signature is not one of message data.
    #[error("it has the type {0:#04x}, which is not a signature of binary data")]
    NotOfData(u8),
    /// The signature has no creation time.
    #[error("it has no creation time")]
    Undated,
    /// The signature has expired.
    #[error("it expired on {0}")]
    Expired(Date),
    /// The signature's creation time is in the future.
    #[error("its creation time is in the future, on {0}")]
    FromFuture(Date),
    /// The signature is older than its key.
    #[error("it is older than the key {0}")]
    OlderThanKey(KeyName),
    /// The key has expired.
    #[error("the key {0} expired on {1}")]
    KeyExpired(KeyName, Date),
    /// The key is revoked.
    #[error("the key {0} is revoked")]
    KeyRevoked(KeyName),
    /// The key may be revoked.
    #[error("the key {0} is treated as revoked: it has a revocation that cannot be verified: {1}")]
    RevocationUnchecked(KeyName, String),
    /// No valid self-signature certifies the owner and the usage of the primary key.
    #[error("the key {0} has no valid self-certification")]
    NotCertified(KeyName),
    /// The primary key has no valid binding signature for the subkey.
    #[error("the key {0} has no valid binding signature by its primary key")]
    NotBound(KeyName),
    /// The subkey has no valid back-signature for the primary key.
    #[error("the key {0} has no valid signature over its primary key")]
    NotBoundBack(KeyName),
    /// The key's usage flags do not allow signing.
    #[error("the key {0} must not be used for signing")]
    MayNotSign(KeyName),
    /// The key cannot be used here.
    #[error("the key {0} cannot be used: {1}")]
    Unusable(KeyName, String),
}

/// A time in seconds since the epoch; displayed as a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date(pub u64);

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = i64::try_from(self.0).ok();
        match moment.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok()) {
            Some(moment) => write!(f, "{}", moment.strftime("%Y-%m-%d")),
            None => write!(f, "second {}", self.0),
        }
    }
}
