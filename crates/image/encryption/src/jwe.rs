//! Keys wrapped as JWE (RFC 7516), in JSON, for one or several recipients.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::digest::{Context, SHA256};
use aws_lc_rs::key_wrap::{AES_128, AES_256, AesKek, KeyWrap as _};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::key::Padding;
use crate::{Budget, PrivateKey, Refused};

const MALFORMED: Refused = Refused::Malformed("a JWE");
/// Maximum number of recipients.
const MOST_RECIPIENTS: usize = 64;

#[derive(Deserialize)]
struct Jwe {
    protected: String,
    unprotected: Option<Header>,
    header: Option<Header>,
    encrypted_key: Option<String>,
    recipients: Option<Vec<Recipient>>,
    aad: Option<String>,
    iv: String,
    ciphertext: String,
    tag: String,
}

#[derive(Deserialize)]
struct Recipient {
    header: Option<Header>,
    encrypted_key: Option<String>,
}

#[derive(Deserialize, Default, Clone)]
struct Header {
    alg: Option<String>,
    enc: Option<String>,
    epk: Option<PublicKey>,
    apu: Option<String>,
    apv: Option<String>,
    zip: Option<String>,
    crit: Option<serde_json::Value>,
}

#[derive(Deserialize, Clone)]
struct PublicKey {
    kty: String,
    crv: String,
    x: String,
    y: String,
}

/// Unwraps the key, if one of the private keys fits.
pub(crate) fn open(
    bytes: &[u8],
    keys: &[&PrivateKey],
    budget: &mut Budget,
) -> Result<Option<Zeroizing<Vec<u8>>>, Refused> {
    let jwe: Jwe = serde_json::from_slice(bytes).map_err(|_| MALFORMED)?;
    let protected: Header =
        serde_json::from_slice(&decode(&jwe.protected)?).map_err(|_| MALFORMED)?;
    let shared = over(protected, jwe.unprotected.clone());
    let one = Recipient {
        header: jwe.header.clone(),
        encrypted_key: jwe.encrypted_key.clone(),
    };
    let recipients = match &jwe.recipients {
        Some(several) if several.len() > MOST_RECIPIENTS => return Err(Refused::TooMany),
        Some(several) => several.as_slice(),
        None => std::slice::from_ref(&one),
    };
    for recipient in recipients {
        let header = over(shared.clone(), recipient.header.clone());
        let wrapped = decode(recipient.encrypted_key.as_deref().unwrap_or_default())?;
        if let Some(content_key) = content_key(&header, &wrapped, keys, budget)? {
            return decrypt(&jwe, &header, &content_key).map(Some);
        }
    }
    Ok(None)
}

/// Shortens untrusted text for messages.
fn short(word: &str) -> String {
    word.chars().take(32).collect()
}

/// Merges the shared header with that of a recipient; the shared one takes precedence.
fn over(first: Header, second: Option<Header>) -> Header {
    let second = second.unwrap_or_default();
    Header {
        alg: first.alg.or(second.alg),
        enc: first.enc.or(second.enc),
        epk: first.epk.or(second.epk),
        apu: first.apu.or(second.apu),
        apv: first.apv.or(second.apv),
        zip: first.zip.or(second.zip),
        crit: first.crit.or(second.crit),
    }
}

fn content_key(
    header: &Header,
    wrapped: &[u8],
    keys: &[&PrivateKey],
    budget: &mut Budget,
) -> Result<Option<Zeroizing<Vec<u8>>>, Refused> {
    if header.crit.is_some() || header.zip.is_some() {
        return Err(Refused::Unsupported(
            "a JWE with `crit` or `zip`".to_owned(),
        ));
    }
    let algorithm = header.alg.as_deref().unwrap_or_default();
    let padding = match algorithm {
        "RSA-OAEP" => Some(Padding::OaepSha1),
        "RSA-OAEP-256" => Some(Padding::OaepSha256),
        "ECDH-ES+A128KW" | "ECDH-ES+A256KW" => None,
        other => {
            return Err(Refused::Unsupported(format!(
                "a JWE with the key algorithm {:?}",
                short(other)
            )));
        }
    };
    for key in keys {
        budget.spend()?;
        let opened = match padding {
            Some(padding) => key.unwrap_rsa(padding, wrapped),
            None => agreed(header, algorithm, wrapped, key)?,
        };
        if opened.is_some() {
            return Ok(opened);
        }
    }
    Ok(None)
}

fn agreed(
    header: &Header,
    algorithm: &str,
    wrapped: &[u8],
    key: &PrivateKey,
) -> Result<Option<Zeroizing<Vec<u8>>>, Refused> {
    let Some(PublicKey { kty, crv, x, y }) = &header.epk else {
        return Err(MALFORMED);
    };
    if kty != "EC" {
        return Err(Refused::Unsupported(format!(
            "a JWE with the key type {:?}",
            short(kty)
        )));
    }
    let Some(shared) = key.agree(crv, &decode(x)?, &decode(y)?) else {
        return Ok(None);
    };
    let party = |text: &Option<String>| decode(text.as_deref().unwrap_or_default());
    let (apu, apv) = (party(&header.apu)?, party(&header.apv)?);
    let (bits, cipher): (u32, _) = match algorithm {
        "ECDH-ES+A128KW" => (128, &AES_128),
        _ => (256, &AES_256),
    };
    let derived = derive(&shared, algorithm, &apu, &apv, bits);
    // The wrapped key has eight bytes of checksum besides the key.
    let mut opened = Zeroizing::new(vec![0; wrapped.len().saturating_sub(8)]);
    let kek = AesKek::new(cipher, &derived).map_err(|_| MALFORMED)?;
    let length = kek.unwrap(wrapped, &mut opened).map(|key| key.len());
    Ok(length.ok().map(|length| {
        opened.truncate(length);
        opened
    }))
}

/// Concat KDF (NIST SP 800-56A, RFC 7518 4.6.2); one round of SHA-256 is sufficient for all lengths.
fn derive(shared: &[u8], algorithm: &str, apu: &[u8], apv: &[u8], bits: u32) -> Zeroizing<Vec<u8>> {
    let mut hash = Context::new(&SHA256);
    hash.update(&1_u32.to_be_bytes());
    hash.update(shared);
    for field in [algorithm.as_bytes(), apu, apv] {
        hash.update(&u32::try_from(field.len()).unwrap_or(u32::MAX).to_be_bytes());
        hash.update(field);
    }
    hash.update(&bits.to_be_bytes());
    let mut derived = Zeroizing::new(hash.finish().as_ref().to_vec());
    derived.truncate(bits as usize / 8);
    derived
}

fn decrypt(jwe: &Jwe, header: &Header, key: &[u8]) -> Result<Zeroizing<Vec<u8>>, Refused> {
    let encryption = header.enc.as_deref().unwrap_or_default();
    if encryption != "A256GCM" {
        return Err(Refused::Unsupported(format!(
            "a JWE with the encryption {:?}",
            short(encryption)
        )));
    }
    let key = UnboundKey::new(&AES_256_GCM, key).map_err(|_| MALFORMED)?;
    let nonce = Nonce::try_assume_unique_for_key(&decode(&jwe.iv)?).map_err(|_| MALFORMED)?;
    let aad = match &jwe.aad {
        Some(more) => format!("{}.{more}", jwe.protected),
        None => jwe.protected.clone(),
    };
    let mut bytes = Zeroizing::new(decode(&jwe.ciphertext)?);
    bytes.extend(decode(&jwe.tag)?);
    let opened = LessSafeKey::new(key).open_in_place(nonce, Aad::from(aad), &mut bytes);
    let length = opened.map_err(|_| Refused::Tampered)?.len();
    bytes.truncate(length);
    Ok(bytes)
}

fn decode(text: &str) -> Result<Vec<u8>, Refused> {
    BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| MALFORMED)
}
