//! Errors of private key files.

/// Maximum number of keys with a passphrase in one file: each takes up to a second.
pub(crate) const MOST_LOCKED: usize = 16;

/// An error of reading a private key file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// A key is malformed. The message has no details, which might contain a part of the key.
    #[error("it is not PEM")]
    Pem,
    /// A key has a passphrase, but none was given.
    #[error("it is protected by a passphrase")]
    NoPassphrase,
    /// The passphrase does not open the key.
    #[error("its passphrase is wrong, or it is damaged")]
    WrongPassphrase,
    /// The passphrase protection is not supported.
    #[error(
        "passphrase protection {0} is not supported; convert the key with `openssl pkcs8 -topk8 -v2 aes-256-cbc`"
    )]
    Protection(String),
    /// The algorithm or the key size is not supported.
    #[error("its key type is not supported; use RSA with 2048 to 8192 bits, P-256, P-384 or P-521")]
    Kind,
    /// The file contains OpenPGP keys.
    #[error("OpenPGP keys are not supported; use a key provider that runs gpg")]
    OpenPgp,
    /// The file refers to a key in a PKCS#11 module.
    #[error(
        "PKCS#11 is not supported, because the daemon cannot load its C libraries; use a key \
         provider that loads the module"
    )]
    Pkcs11,
    /// The file contains no key.
    #[error("it contains no private key")]
    NoKey,
    /// The file contains too many keys.
    #[error("it has more than {MOST_LOCKED} keys with a passphrase")]
    TooMany,
}
