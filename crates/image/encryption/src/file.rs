//! Parsing of private key files.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use orlop_der::{INTEGER, NULL, OCTETS, OID, SEQUENCE, write};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;
use zeroize::Zeroizing;

use crate::key_error::MOST_LOCKED;
use crate::pbes2;
use crate::pkcs7::RSA;
use crate::{KeyError, PrivateKey};

const BEGIN_LOCKED: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
const END_LOCKED: &str = "-----END ENCRYPTED PRIVATE KEY-----";
impl PrivateKey {
    /// Parses all private keys in a PEM file, and skips other objects such as certificates. The passphrase applies to
    /// all encrypted keys.
    pub fn all_of(file: &[u8], passphrase: Option<&[u8]>) -> Result<Vec<Self>, KeyError> {
        let text = Zeroizing::new(String::from_utf8_lossy(file).into_owned());
        if is_openpgp(file, &text) {
            return Err(KeyError::OpenPgp);
        }
        if text.lines().any(|line| line.starts_with("pkcs11:")) {
            return Err(KeyError::Pkcs11);
        }
        if text.contains("Proc-Type: 4,ENCRYPTED") {
            let how = "in the format that OpenSSL used before PKCS#8";
            return Err(KeyError::Protection(how.to_owned()));
        }
        let open = PrivateKeyDer::pem_slice_iter(file).map(|der| {
            let der = der.map_err(|_| KeyError::Pem)?;
            Self::from_der(&der).ok_or(KeyError::Kind)
        });
        let mut keys: Vec<Self> = open.collect::<Result<_, _>>()?;
        for (count, locked) in locked(&text).enumerate() {
            if count == MOST_LOCKED {
                return Err(KeyError::TooMany);
            }
            let der = pbes2::open(&locked?, passphrase)?;
            let der = PrivateKeyDer::Pkcs8(der.as_slice().into());
            keys.push(Self::from_der(&der).ok_or(KeyError::Kind)?);
        }
        if keys.is_empty() {
            return Err(KeyError::NoKey);
        }
        Ok(keys)
    }

    fn from_der(der: &PrivateKeyDer<'_>) -> Option<Self> {
        let bytes = der.secret_der();
        match der {
            PrivateKeyDer::Pkcs1(_) => Self::rsa(&pkcs8(bytes)),
            PrivateKeyDer::Sec1(_) => Self::on_curve(bytes),
            PrivateKeyDer::Pkcs8(_) => Self::on_curve(bytes).or_else(|| Self::rsa(bytes)),
            _ => None,
        }
    }
}

/// Converts an RSA key from PKCS#1 to PKCS#8 (RFC 5958), which the library requires.
fn pkcs8(pkcs1: &[u8]) -> Zeroizing<Vec<u8>> {
    let algorithm = write(SEQUENCE, &[write(OID, RSA), write(NULL, &[])].concat());
    let key = Zeroizing::new(write(OCTETS, pkcs1));
    let all = Zeroizing::new([&write(INTEGER, &[0])[..], &algorithm, &key].concat());
    Zeroizing::new(write(SEQUENCE, &all))
}

/// Reports whether a file seems to contain OpenPGP keys, as text or as packets (RFC 9580, 4.2).
fn is_openpgp(file: &[u8], text: &str) -> bool {
    let is_packet = file.first().is_some_and(|first| first & 0x80 != 0);
    is_packet || text.lines().any(|line| line.starts_with("-----BEGIN PGP "))
}

/// Returns the blocks of encrypted keys, which the PEM crate skips.
fn locked(text: &str) -> impl Iterator<Item = Result<Vec<u8>, KeyError>> {
    let mut lines = text.lines().map(str::trim_end);
    std::iter::from_fn(move || {
        lines.find(|line| *line == BEGIN_LOCKED)?;
        let mut content = String::new();
        for line in lines.by_ref() {
            if line == END_LOCKED {
                return Some(BASE64_STANDARD.decode(&content).map_err(|_| KeyError::Pem));
            }
            content.push_str(line);
        }
        Some(Err(KeyError::Pem))
    })
}
