//! Bodies of log entries: the signed artifact, the signature and the key.

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
use serde::Deserialize;

use crate::hash::{SHA256, SHA384, SHA512, digest};
use crate::text::{Base64, Hex};
use crate::{Certificate, Refusal};

/// The expected contents of a log entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Signed<'a> {
    /// The signed bytes.
    pub(crate) message: &'a [u8],
    /// The payload of an envelope, which is a part of the message.
    pub(crate) payload: Option<&'a [u8]>,
    pub(crate) signature: &'a [u8],
    /// The signer's key.
    pub(crate) key: &'a [u8],
    /// The certificate of that key, if the policy is about certificates.
    pub(crate) certificate: Option<&'a [u8]>,
}

/// Fails unless the log entry is for this signature.
pub(crate) fn check(body: &[u8], signed: Signed<'_>) -> Result<(), Refusal> {
    let body: Body =
        serde_json::from_slice(body).map_err(|error| Refusal::malformed("the log entry", error))?;
    match (body.kind.as_str(), body.version.as_str()) {
        ("hashedrekord", "0.0.1") => {
            let spec: HashedRekord = spec(body.spec)?;
            data(&spec.data.hash, signed.message)?;
            signature(&spec.signature.content.0, signed)?;
            verifier(&spec.signature.public_key.content.0, signed)
        }
        ("hashedrekord", "0.0.2") => {
            let spec: HashedRekord2 = spec(body.spec)?;
            spec.inner.data.check(signed.message)?;
            spec.inner.signature.check(signed)
        }
        ("dsse", "0.0.1") => {
            let spec: Dsse = spec(body.spec)?;
            data(&spec.payload_hash, payload(signed)?)?;
            let one = only(&spec.signatures)?;
            signature(&one.signature.0, signed)?;
            verifier(&one.verifier.0, signed)
        }
        ("dsse", "0.0.2") => {
            let spec: Dsse2 = spec(body.spec)?;
            spec.inner.payload_hash.check(payload(signed)?)?;
            only(&spec.inner.signatures)?.check(signed)
        }
        ("intoto", "0.0.2") => {
            let spec: Intoto = spec(body.spec)?;
            data(&spec.content.payload_hash, payload(signed)?)?;
            let one = only(&spec.content.envelope.signatures)?;
            // The signature is encoded in base64 twice.
            let written = String::from_utf8_lossy(&one.sig.0);
            let bytes = base64(&written).ok_or(Refusal::OtherEntry("signature"))?;
            signature(&bytes, signed)?;
            verifier(&one.public_key.0, signed)
        }
        (kind, version) => {
            let problem = format!("a log entry of the type {kind} {version} is not supported");
            Err(Refusal::Unsupported(problem))
        }
    }
}

fn spec<T: for<'de> Deserialize<'de>>(value: serde_json::Value) -> Result<T, Refusal> {
    T::deserialize(value).map_err(|error| Refusal::malformed("the log entry", error))
}

fn payload(signed: Signed<'_>) -> Result<&[u8], Refusal> {
    signed.payload.ok_or(Refusal::OtherEntry("kind"))
}

fn only<T>(signatures: &[T]) -> Result<&T, Refusal> {
    match signatures {
        [one] => Ok(one),
        _ => Err(Refusal::OtherEntry("number of signatures")),
    }
}

fn base64(text: &str) -> Option<Vec<u8>> {
    use base64::Engine as _;
    base64::prelude::BASE64_STANDARD.decode(text).ok()
}

fn data(hash: &Hash, bytes: &[u8]) -> Result<(), Refusal> {
    is_of(&hash.algorithm, &hash.value.0, bytes)
}

fn is_of(algorithm: &str, hash: &[u8], bytes: &[u8]) -> Result<(), Refusal> {
    let is_same = match algorithm {
        "sha256" | "SHA2_256" => hash == digest(&SHA256, bytes).as_ref(),
        "sha384" | "SHA2_384" => hash == digest(&SHA384, bytes).as_ref(),
        "sha512" | "SHA2_512" => hash == digest(&SHA512, bytes).as_ref(),
        _ => false,
    };
    is_same.then_some(()).ok_or(Refusal::OtherEntry("artifact"))
}

fn signature(found: &[u8], signed: Signed<'_>) -> Result<(), Refusal> {
    let is_same = found == signed.signature;
    is_same
        .then_some(())
        .ok_or(Refusal::OtherEntry("signature"))
}

/// Checks a certificate or key in PEM.
fn verifier(pem: &[u8], signed: Signed<'_>) -> Result<(), Refusal> {
    if let Ok(certificate) = CertificateDer::from_pem_slice(pem) {
        return is_by_certificate(&certificate, signed);
    }
    match SubjectPublicKeyInfoDer::from_pem_slice(pem) {
        Ok(key) => is_by_key(&key, signed),
        Err(_) => Err(Refusal::OtherEntry("key")),
    }
}

fn is_by_certificate(der: &[u8], signed: Signed<'_>) -> Result<(), Refusal> {
    let is_same = match signed.certificate {
        Some(wanted) => wanted == der,
        None => Certificate::from_der(der).is_ok_and(|it| it.spki() == signed.key),
    };
    is_same
        .then_some(())
        .ok_or(Refusal::OtherEntry("certificate"))
}

fn is_by_key(spki: &[u8], signed: Signed<'_>) -> Result<(), Refusal> {
    // Signers with a certificate log the certificate.
    let is_same = signed.certificate.is_none() && signed.key == spki;
    is_same.then_some(()).ok_or(Refusal::OtherEntry("key"))
}

#[derive(Deserialize)]
struct Body {
    kind: String,
    #[serde(rename = "apiVersion")]
    version: String,
    spec: serde_json::Value,
}

#[derive(Deserialize)]
struct Hash {
    algorithm: String,
    value: Hex,
}

#[derive(Deserialize)]
struct HashedRekord {
    data: Data,
    signature: RekordSignature,
}

#[derive(Deserialize)]
struct Data {
    hash: Hash,
}

#[derive(Deserialize)]
struct RekordSignature {
    content: Base64,
    #[serde(rename = "publicKey")]
    public_key: Pem,
}

#[derive(Deserialize)]
struct Pem {
    content: Base64,
}

#[derive(Deserialize)]
struct Dsse {
    #[serde(rename = "payloadHash")]
    payload_hash: Hash,
    signatures: Vec<DsseSignature>,
}

#[derive(Deserialize)]
struct DsseSignature {
    signature: Base64,
    verifier: Base64,
}

#[derive(Deserialize)]
struct Intoto {
    content: IntotoContent,
}

#[derive(Deserialize)]
struct IntotoContent {
    #[serde(rename = "payloadHash")]
    payload_hash: Hash,
    envelope: IntotoEnvelope,
}

#[derive(Deserialize)]
struct IntotoEnvelope {
    signatures: Vec<IntotoSignature>,
}

#[derive(Deserialize)]
struct IntotoSignature {
    sig: Base64,
    #[serde(rename = "publicKey")]
    public_key: Base64,
}

#[derive(Deserialize)]
struct HashedRekord2 {
    #[serde(rename = "hashedRekordV002")]
    inner: HashedRekord2Inner,
}

#[derive(Deserialize)]
struct HashedRekord2Inner {
    data: Hash2,
    signature: Signature2,
}

#[derive(Deserialize)]
struct Dsse2 {
    #[serde(rename = "dsseV002")]
    inner: Dsse2Inner,
}

#[derive(Deserialize)]
struct Dsse2Inner {
    #[serde(rename = "payloadHash")]
    payload_hash: Hash2,
    signatures: Vec<Signature2>,
}

#[derive(Deserialize)]
struct Hash2 {
    algorithm: String,
    digest: Base64,
}

impl Hash2 {
    fn check(&self, bytes: &[u8]) -> Result<(), Refusal> {
        is_of(&self.algorithm, &self.digest.0, bytes)
    }
}

#[derive(Deserialize)]
struct Signature2 {
    content: Base64,
    verifier: Verifier2,
}

#[derive(Deserialize)]
struct Verifier2 {
    #[serde(rename = "publicKey")]
    public_key: Option<Raw2>,
    #[serde(rename = "x509Certificate")]
    certificate: Option<Raw2>,
}

#[derive(Deserialize)]
struct Raw2 {
    #[serde(rename = "rawBytes")]
    bytes: Base64,
}

impl Signature2 {
    fn check(&self, signed: Signed<'_>) -> Result<(), Refusal> {
        signature(&self.content.0, signed)?;
        match (&self.verifier.public_key, &self.verifier.certificate) {
            (Some(key), None) => is_by_key(&key.bytes.0, signed),
            (None, Some(certificate)) => is_by_certificate(&certificate.bytes.0, signed),
            _ => Err(Refusal::OtherEntry("key")),
        }
    }
}
