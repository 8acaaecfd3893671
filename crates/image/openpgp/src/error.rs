//! What is wrong with bytes, and why a signature is not believed.

use std::fmt;

use crate::fingerprint::Fingerprint;

/// Why bytes are not what they should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// They are something else.
    #[error("it is not OpenPGP: {0}")]
    NotOpenPgp(&'static str),
    /// They are text that does not hold what it says.
    #[error("its ASCII armor is damaged: {0}")]
    Armor(&'static str),
    /// There are less than they say.
    #[error("it ends in the middle of a packet")]
    Truncated,
    /// A packet does not hold what its kind must.
    #[error("{0} in it is malformed")]
    Malformed(&'static str),
    /// There is more than anybody needs.
    #[error("{what} in it exceeds the limit of {limit}")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How much would be read.
        limit: usize,
    },
    /// What others understand, but not this.
    #[error("{0} in it is not supported")]
    Unsupported(String),
    /// A file of keys has what nobody should see.
    #[error("it contains a private key; export the public key with `gpg --export`")]
    Private,
    /// A file of keys has none.
    #[error("it has no public key")]
    NoKey,
    /// It is not exactly one message with one signature.
    #[error("it is not a message with one signature: {0}")]
    Shape(String),
}

/// What people know a key by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyName {
    /// Of the key that signed: the primary one, or one of its subkeys.
    pub fingerprint: Fingerprint,
    /// Of the primary key, where another one signed.
    pub primary: Option<Fingerprint>,
    /// Whose it says that it is.
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

/// Why a signature is not believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// None of the keys has made it.
    #[error("it is signed with the unknown key {0}")]
    UnknownKey(String),
    /// What is signed is something else, or it is nobody's.
    #[error("it is not a valid signature of the key {0}")]
    Wrong(KeyName),
    /// What it signs can be replaced by something else.
    #[error("it uses {0}, which is too weak")]
    WeakHash(&'static str),
    /// It can't be verified here.
    #[error("{0} is not supported")]
    Unsupported(String),
    /// It says that who does not know this must not believe it.
    #[error("it has a critical subpacket of the unknown type {0}")]
    Critical(u8),
    /// It is not about the bytes of a message.
    #[error("it has the type {0:#04x}, which is not a signature of binary data")]
    NotOfData(u8),
    /// It does not say when it was made.
    #[error("it has no creation time")]
    Undated,
    /// It was to be believed for a time only.
    #[error("it expired on {0}")]
    Expired(Date),
    /// It is not made yet.
    #[error("its creation time is in the future, on {0}")]
    FromFuture(Date),
    /// It is older than the key that is said to have made it.
    #[error("it is older than the key {0}")]
    OlderThanKey(KeyName),
    /// The key was good for a time only.
    #[error("the key {0} expired on {1}")]
    KeyExpired(KeyName, Date),
    /// The key is good for nothing any more.
    #[error("the key {0} is revoked")]
    KeyRevoked(KeyName),
    /// It may be good for nothing any more.
    #[error("the key {0} is treated as revoked: it has a revocation that cannot be verified: {1}")]
    RevocationUnchecked(KeyName, String),
    /// Nobody who has the primary key says whose it is and what it is for.
    #[error("the key {0} has no valid self-certification")]
    NotCertified(KeyName),
    /// The primary key does not say that the subkey is one.
    #[error("the key {0} has no valid binding signature by its primary key")]
    NotBound(KeyName),
    /// The subkey does not say that it is the primary key's.
    #[error("the key {0} has no valid signature over its primary key")]
    NotBoundBack(KeyName),
    /// The key is for something else.
    #[error("the key {0} must not be used for signing")]
    MayNotSign(KeyName),
    /// The key can't be used here.
    #[error("the key {0} cannot be used: {1}")]
    Unusable(KeyName, String),
}

/// A moment, in seconds since the epoch; shown as a day.
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
