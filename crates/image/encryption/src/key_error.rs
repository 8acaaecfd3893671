//! Why a file has no key that can be used.

/// As many with a passphrase one file may have: each takes up to a second.
pub(crate) const MOST_LOCKED: usize = 16;

/// Why a file has no key that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// What is wrong about it is not told: that might be a part of it.
    #[error("it is not PEM")]
    Pem,
    /// None was given for it.
    #[error("it is protected by a passphrase")]
    NoPassphrase,
    /// It opens nothing.
    #[error("its passphrase is wrong, or it is damaged")]
    WrongPassphrase,
    /// With how it is protected by a passphrase.
    #[error(
        "passphrase protection {0} is not supported; convert the key with `openssl pkcs8 -topk8 -v2 aes-256-cbc`"
    )]
    Protection(String),
    /// Another algorithm, or too short or long.
    #[error("its key type is not supported; use RSA with 2048 to 8192 bits, P-256, P-384 or P-521")]
    Kind,
    /// It is a file of OpenPGP keys.
    #[error("OpenPGP keys are not supported; use a key provider that runs gpg")]
    OpenPgp,
    /// It tells where a key is, in a module of PKCS#11.
    #[error(
        "PKCS#11 is not supported, because the daemon cannot load its C libraries; use a key \
         provider that loads the module"
    )]
    Pkcs11,
    /// It is another file.
    #[error("it contains no private key")]
    NoKey,
    /// More than anybody has.
    #[error("it has more than {MOST_LOCKED} keys with a passphrase")]
    TooMany,
}
