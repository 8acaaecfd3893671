//! Why a signature does not count.

/// Why a signature does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It can't be read.
    #[error("{what} is malformed: {reason}")]
    Malformed {
        /// What of it.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// It is of a kind that is not supported.
    #[error("{0}")]
    Unsupported(String),
    /// None of the keys that are asked for has signed it.
    #[error("it is not signed with any of the keys")]
    OtherKey,
    /// There is no certificate with it.
    #[error("it has no certificate that names the signer: it is signed only with a key")]
    NoCertificate,
    /// The key of its certificate has not signed it.
    #[error("it is not signed with the key of its certificate")]
    NotByCertificate,
    /// The certificate is not by the authorities.
    #[error("its certificate is not accepted: {0}")]
    Chain(String),
    /// The certificate was not valid when it counts.
    #[error("its certificate is valid from {from} to {until}, and {when} is {at}")]
    NotValid {
        /// Since when it is valid.
        from: String,
        /// Until when it is.
        until: String,
        /// Which moment counts.
        when: &'static str,
        /// That moment.
        at: String,
    },
    /// Somebody else vouched for who has signed.
    #[error("its certificate was issued for a login at {found}, not at {wanted}")]
    Issuer {
        /// Who did.
        found: String,
        /// Who must.
        wanted: String,
    },
    /// Somebody else has signed it.
    #[error("its certificate is for {found}, not for {wanted}")]
    Subject {
        /// Who has.
        found: String,
        /// Who must.
        wanted: String,
    },
    /// The certificate is in none of the certificate logs.
    #[error("its certificate is not in a trusted certificate transparency log: {0}")]
    Sct(String),
    /// It is in no log.
    #[error(
        "it is not in a transparency log, which the policy requires with \"rekorPublicKey…\": {0}"
    )]
    NotLogged(String),
    /// It is in another log.
    #[error("its log entry is from another log, {0}")]
    OtherLog(String),
    /// The log's promise is not the log's.
    #[error("the timestamp of its log entry is wrong: it is not signed with the key of the log")]
    Promise,
    /// The proof that it is in the log is wrong.
    #[error("its inclusion proof is wrong: {0}")]
    Proof(String),
    /// The log's entry is of something else.
    #[error("the log entry is for another {0}")]
    OtherEntry(&'static str),
    /// The timestamp of an authority does not hold.
    #[error("its timestamp is not accepted: {0}")]
    Stamp(String),
    /// Nothing tells when it was signed.
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
