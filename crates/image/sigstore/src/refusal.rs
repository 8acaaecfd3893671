//! Reasons to refuse a signature.

/// The reason to refuse a signature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The data cannot be parsed.
    #[error("{what} is malformed: {reason}")]
    Malformed {
        /// The malformed object.
        what: &'static str,
        /// The problem with it.
        reason: String,
    },
    /// A type or algorithm is not supported.
    #[error("{0}")]
    Unsupported(String),
    /// None of the required keys has signed it.
    #[error("it is not signed with any of the keys")]
    OtherKey,
    /// It has no certificate.
    #[error("it has no certificate that names the signer: it is signed only with a key")]
    NoCertificate,
    /// The key of its certificate has not signed it.
    #[error("it is not signed with the key of its certificate")]
    NotByCertificate,
    /// The certificate is not from a trusted authority.
    #[error("its certificate is not accepted: {0}")]
    Chain(String),
    /// The certificate was not valid at the relevant time.
    #[error("its certificate is valid from {from} to {until}, and {when} is {at}")]
    NotValid {
        /// Start of the validity.
        from: String,
        /// End of the validity.
        until: String,
        /// What the compared time is, as text for the message.
        when: &'static str,
        /// The time that was compared with the validity.
        at: String,
    },
    /// Another identity provider verified the signer.
    #[error("its certificate was issued for a login at {found}, not at {wanted}")]
    Issuer {
        /// The actual identity provider.
        found: String,
        /// The required identity provider.
        wanted: String,
    },
    /// Another identity has signed it.
    #[error("its certificate is for {found}, not for {wanted}")]
    Subject {
        /// The actual signer.
        found: String,
        /// The required signer.
        wanted: String,
    },
    /// The certificate is not in a trusted certificate log.
    #[error("its certificate is not in a trusted certificate transparency log: {0}")]
    Sct(String),
    /// The signature is not in a log.
    #[error(
        "it is not in a transparency log, which the policy requires with \"rekorPublicKey…\": {0}"
    )]
    NotLogged(String),
    /// The signature is in another log.
    #[error("its log entry is from another log, {0}")]
    OtherLog(String),
    /// The log's promise has a wrong signature.
    #[error("the timestamp of its log entry is wrong: it is not signed with the key of the log")]
    Promise,
    /// The proof of inclusion in the log is wrong.
    #[error("its inclusion proof is wrong: {0}")]
    Proof(String),
    /// The log entry is for another signature.
    #[error("the log entry is for another {0}")]
    OtherEntry(&'static str),
    /// An authority's timestamp is invalid.
    #[error("its timestamp is not accepted: {0}")]
    Stamp(String),
    /// The signing time is unknown.
    #[error(
        "nothing proves that it was signed while its certificate was valid: it has no timestamp of a log{0}"
    )]
    NoTime(&'static str),
}

impl Refusal {
    pub(crate) fn malformed(what: &'static str, reason: impl ToString) -> Self {
        Self::Malformed {
            what,
            reason: reason.to_string(),
        }
    }
}
