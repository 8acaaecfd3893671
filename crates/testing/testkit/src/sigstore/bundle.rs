//! Signatures and bundles, as made with cosign.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::authority::pem;
use super::{Key, LogEntry, TransparencyLog};
use crate::image::digest;
use crate::signature::{ImageAttestation, ImageSignature, payload};

/// A signer.
#[derive(Debug)]
pub struct Person {
    /// The key.
    pub key: Key,
    /// Certificates, its own first; empty for a bare key.
    pub certificates: Vec<Vec<u8>>,
}

/// Returns the statement that cosign signs for an image; it only says that the image is signed.
pub fn statement(digest: &str, name: Option<&str>, predicate_type: &str) -> Value {
    let (kind, digits) = digest.split_once(':').expect("a digest");
    let mut subject = json!({ "digest": { kind: digits } });
    if let Some(name) = name {
        subject["name"] = name.into();
    }
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [subject],
        "predicateType": predicate_type,
        "predicate": {},
    })
}

/// Adds a timestamp of the signature to a bundle, made by `stamp`.
pub fn stamped(mut bundle: Value, stamp: impl FnOnce(&[u8]) -> Vec<u8>) -> Value {
    let signature = bundle["dsseEnvelope"]["signatures"][0]["sig"].as_str();
    let signature = BASE64_STANDARD.decode(signature.expect("a signature"));
    let stamp = BASE64_STANDARD.encode(stamp(&signature.expect("base64")));
    bundle["verificationMaterial"]["timestampVerificationData"] =
        json!({ "rfc3161Timestamps": [{ "signedTimestamp": stamp }] });
    bundle
}

impl Person {
    /// Creates a signer with a bare key.
    pub fn with(key: Key) -> Self {
        Self {
            key,
            certificates: Vec::new(),
        }
    }

    /// Signs a statement, and adds an entry of the log.
    pub fn bundle(&self, statement: &Value, noted: Option<(&TransparencyLog, u64)>) -> Value {
        let (envelope, entry) = self.envelope(statement, noted);
        let entries = entry.map(|entry| entry.bundled);
        json!({
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": self.material(entries.into_iter().collect()),
            "dsseEnvelope": envelope,
        })
    }

    /// Signs a statement with a log entry, in cosign's format before bundles.
    pub fn attest(
        &self,
        statement: &Value,
        noted: Option<(&TransparencyLog, u64)>,
    ) -> ImageAttestation {
        let (envelope, entry) = self.envelope(statement, noted);
        let chain: String = self
            .certificates
            .iter()
            .skip(1)
            .map(|one| pem(one))
            .collect();
        ImageAttestation {
            envelope: envelope.to_string(),
            certificate: self.certificates.first().map(|own| pem(own)),
            chain: (!chain.is_empty()).then_some(chain),
            log: entry.map(|entry| entry.detached.to_string()),
        }
    }

    fn envelope(
        &self,
        statement: &Value,
        noted: Option<(&TransparencyLog, u64)>,
    ) -> (Value, Option<LogEntry>) {
        let (kind, payload) = ("application/vnd.in-toto+json", statement.to_string());
        let message = format!("DSSEv1 {} {kind} {} {payload}", kind.len(), payload.len());
        let signature = BASE64_STANDARD.encode(self.key.sign(message.as_bytes()));
        let entry = noted.map(|(log, at)| {
            let body = json!({
                "apiVersion": "0.0.1",
                "kind": "dsse",
                "spec": {
                    "envelopeHash": { "algorithm": "sha256", "value": "00" },
                    "payloadHash": hash(payload.as_bytes()),
                    "signatures": [{ "signature": signature, "verifier": self.verifier() }],
                },
            });
            log.enter(&body, at)
        });
        let envelope = json!({
            "payload": BASE64_STANDARD.encode(&payload),
            "payloadType": kind,
            "signatures": [{ "sig": signature }],
        });
        (envelope, entry)
    }

    /// Signs a message that is not part of the bundle, and adds an entry of the log.
    pub fn bundle_of_message(
        &self,
        message: &[u8],
        noted: Option<(&TransparencyLog, u64)>,
    ) -> Value {
        let signature = BASE64_STANDARD.encode(self.key.sign(message));
        let entries =
            noted.map(|(log, at)| log.enter(&self.record(message, &signature), at).bundled);
        json!({
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": self.material(entries.into_iter().collect()),
            "messageSignature": {
                "messageDigest": {
                    "algorithm": "SHA2_256",
                    "digest": BASE64_STANDARD.encode(Sha256::digest(message)),
                },
                "signature": signature,
            },
        })
    }

    /// Signs an image for a name, in cosign's format before bundles.
    pub fn sign_image(
        &self,
        digest: &str,
        reference: &str,
        noted: Option<(&TransparencyLog, u64)>,
    ) -> ImageSignature {
        let payload = payload(digest, reference);
        let signature = BASE64_STANDARD.encode(self.key.sign(payload.as_bytes()));
        let entry = noted.map(|(log, at)| {
            let body = self.record(payload.as_bytes(), &signature);
            log.enter(&body, at).detached.to_string()
        });
        let chain = self.certificates.iter().skip(1);
        let chain: String = chain.map(|one| pem(one)).collect();
        ImageSignature {
            payload,
            signature,
            certificate: self.certificates.first().map(|own| pem(own)),
            chain: (!chain.is_empty()).then_some(chain),
            log: entry,
        }
    }

    /// Returns the certificate in PEM.
    pub fn certificate_pem(&self) -> String {
        pem(self
            .certificates
            .first()
            .expect("somebody with a certificate"))
    }

    /// Returns the log record of a message's signature.
    fn record(&self, message: &[u8], signature: &str) -> Value {
        json!({
            "apiVersion": "0.0.1",
            "kind": "hashedrekord",
            "spec": {
                "data": { "hash": hash(message) },
                "signature": {
                    "content": signature,
                    "publicKey": { "content": self.verifier() },
                },
            },
        })
    }

    fn verifier(&self) -> String {
        let own = self.certificates.first();
        BASE64_STANDARD.encode(own.map_or_else(|| self.key.pem(), |own| pem(own)))
    }

    fn material(&self, entries: Vec<Value>) -> Value {
        match self.certificates.first() {
            Some(own) => json!({
                "certificate": { "rawBytes": BASE64_STANDARD.encode(own) },
                "tlogEntries": entries,
            }),
            None => json!({ "publicKey": { "hint": "key" }, "tlogEntries": entries }),
        }
    }
}

fn hash(bytes: &[u8]) -> Value {
    let digits = &digest(bytes)[7..];
    json!({ "algorithm": "sha256", "value": digits })
}
