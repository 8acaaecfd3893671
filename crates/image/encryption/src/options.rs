//! Encryption options of a layer: the secret key, and the public parameters.

use std::collections::BTreeMap;
use std::fmt;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::Refused;

/// The only supported cipher of layers.
const CIPHER: &str = "AES_256_CTR_HMAC_SHA256";

/// The options of a layer's encryption. They are never printed, and wiped on drop.
pub struct Options {
    pub(crate) key: Zeroizing<[u8; 32]>,
    pub(crate) nonce: [u8; 16],
    pub(crate) hmac: [u8; 32],
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Options(secret)")
    }
}

#[derive(Deserialize)]
struct Public {
    cipher: String,
    hmac: String,
    #[serde(default)]
    cipheroptions: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct Private {
    symkey: Zeroizing<String>,
    #[serde(default)]
    cipheroptions: Option<BTreeMap<String, String>>,
}

impl Options {
    /// Returns a value that distinguishes keys without revealing them.
    pub fn fingerprint(&self) -> [u8; 32] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &*self.key);
        let mut context = hmac::Context::with_key(&key);
        context.update(b"the name of a layer");
        context.update(&self.nonce);
        // The digest always has this length.
        context.sign().as_ref().try_into().unwrap_or_default()
    }

    /// Parses both parts: the public annotation, and the unwrapped private part.
    pub(crate) fn parse(public: &str, private: &[u8]) -> Result<Self, Refused> {
        let public = decode(public).ok_or(Refused::Malformed(
            "the list of its public encryption options",
        ))?;
        let public: Public = serde_json::from_slice(&public)
            .map_err(|_| Refused::Malformed("the list of its public encryption options"))?;
        if public.cipher != CIPHER {
            let cipher: String = public.cipher.chars().take(32).collect();
            return Err(Refused::Unsupported(format!("the cipher {cipher:?}")));
        }
        // Errors do not reveal anything about the secret part, not even why it is malformed.
        let malformed = || Refused::Malformed("its wrapped key");
        let private: Private = serde_json::from_slice(private).map_err(|_| malformed())?;
        let mut key = Zeroizing::new([0; 32]);
        let bytes = Zeroizing::new(decode(&private.symkey).ok_or_else(malformed)?);
        if bytes.len() != key.len() {
            return Err(malformed());
        }
        key.copy_from_slice(&bytes);
        let named = |options: &Option<BTreeMap<String, String>>| {
            let nonce = options.as_ref()?.get("nonce")?;
            decode(nonce)?.try_into().ok()
        };
        let nonce = named(&private.cipheroptions).or_else(|| named(&public.cipheroptions));
        let hmac = decode(&public.hmac).and_then(|hmac| hmac.try_into().ok());
        Ok(Self {
            key,
            nonce: nonce.ok_or_else(malformed)?,
            hmac: hmac.ok_or(Refused::Malformed(
                "the list of its public encryption options",
            ))?,
        })
    }
}

pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(text).ok()
}
