//! Bundles: a signature with all data for its verification (sigstore's protobuf bundle, as JSON).

use std::borrow::Cow;

use serde::Deserialize;

use crate::authorities::MAX_CHAIN;
use crate::entry::Entry;
use crate::envelope::RawEnvelope;
use crate::proof::{MAX_HASHES, Proof};
use crate::signed::Evidence;
use crate::text::{Base64, Number};
use crate::timestamp::{MAX_BYTES, MAX_STAMPS};
use crate::{By, Demand, Envelope, Refusal};

/// The media type of bundles that cosign attaches to images.
pub const MEDIA_TYPE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// The supported media types of bundles.
const MEDIA_TYPES: [&str; 4] = [
    MEDIA_TYPE,
    "application/vnd.dev.sigstore.bundle+json;version=0.3",
    "application/vnd.dev.sigstore.bundle+json;version=0.2",
    "application/vnd.dev.sigstore.bundle+json;version=0.1",
];

/// Maximum number of log entries for one signature.
const MAX_ENTRIES: usize = 8;

const WHAT: &str = "the bundle";

/// An unverified bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// The signed content.
    pub content: Content,
    certificates: Vec<Vec<u8>>,
    entries: Vec<Entry>,
    stamps: Vec<Vec<u8>>,
}

/// The content of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// An envelope in the bundle.
    Envelope(Envelope),
    /// The signature of a message outside of the bundle.
    Message(Vec<u8>),
}

impl Bundle {
    /// Parses a bundle.
    pub fn parse(json: &[u8]) -> Result<Self, Refusal> {
        let raw: Raw =
            serde_json::from_slice(json).map_err(|error| Refusal::malformed(WHAT, error))?;
        if !MEDIA_TYPES.contains(&raw.media_type.as_str()) {
            let shown: String = raw.media_type.chars().take(100).collect();
            let problem = format!("the bundle type {shown:?} is not supported");
            return Err(Refusal::Unsupported(problem));
        }
        let content = match (raw.envelope, raw.message) {
            (Some(envelope), None) => Content::Envelope(envelope.read()?),
            (None, Some(message)) => Content::Message(message.signature.0),
            _ => return Err(wrong("it needs either dsseEnvelope or messageSignature")),
        };
        let material = raw.material;
        let certificates = match (material.certificate, material.chain, material.key) {
            (Some(one), None, None) => vec![one.bytes.0],
            (None, Some(chain), None) => {
                let chain = chain.certificates.into_iter();
                chain.map(|one| one.bytes.0).collect()
            }
            // The policy determines the key.
            (None, None, Some(_)) => Vec::new(),
            _ => return Err(wrong("it does not have exactly one type of key")),
        };
        if certificates.len() > MAX_CHAIN + 1 {
            return Err(wrong("it has too many certificates"));
        }
        if material.entries.len() > MAX_ENTRIES {
            return Err(wrong("it has too many log entries"));
        }
        let entries = material.entries.into_iter().map(RawEntry::read);
        let stamps = material.timestamps.unwrap_or_default().stamps;
        let stamps = stamps.unwrap_or_default();
        if stamps.len() > MAX_STAMPS || stamps.iter().any(|it| it.bytes.0.len() > MAX_BYTES) {
            return Err(wrong("it has too many timestamps, or too large ones"));
        }
        Ok(Self {
            content,
            certificates,
            entries: entries.collect::<Result<_, _>>()?,
            stamps: stamps.into_iter().map(|stamp| stamp.bytes.0).collect(),
        })
    }

    /// Verifies the bundle and returns the signer. `message` is the signed message, if it is not in the bundle.
    pub fn verify(&self, demand: &Demand<'_>, message: Option<&[u8]>) -> Result<By, Refusal> {
        let (message, payload, signature) = match (&self.content, message) {
            (Content::Envelope(envelope), _) => (
                Cow::Owned(envelope.message()),
                Some(&envelope.payload[..]),
                &envelope.signature,
            ),
            (Content::Message(signature), Some(message)) => {
                (Cow::Borrowed(message), None, signature)
            }
            (Content::Message(_), None) => {
                let problem = "it signs a message instead of an in-toto statement".to_owned();
                return Err(Refusal::Unsupported(problem));
            }
        };
        demand.check(&Evidence {
            message,
            payload,
            signature,
            certificates: Cow::Borrowed(&self.certificates),
            entries: Cow::Borrowed(&self.entries),
            stamps: &self.stamps,
            is_stamped: false,
        })
    }
}

fn wrong(reason: &str) -> Refusal {
    Refusal::malformed(WHAT, reason)
}

#[derive(Deserialize)]
struct Raw {
    #[serde(rename = "mediaType")]
    media_type: String,
    #[serde(rename = "verificationMaterial")]
    material: RawMaterial,
    #[serde(rename = "dsseEnvelope")]
    envelope: Option<RawEnvelope>,
    #[serde(rename = "messageSignature")]
    message: Option<RawMessage>,
}

#[derive(Deserialize)]
struct RawMaterial {
    #[serde(rename = "publicKey")]
    key: Option<serde::de::IgnoredAny>,
    certificate: Option<RawBytes>,
    #[serde(rename = "x509CertificateChain")]
    chain: Option<RawChain>,
    #[serde(rename = "tlogEntries", default)]
    entries: Vec<RawEntry>,
    #[serde(rename = "timestampVerificationData")]
    timestamps: Option<RawTimestamps>,
}

#[derive(Deserialize)]
struct RawBytes {
    #[serde(rename = "rawBytes")]
    bytes: Base64,
}

#[derive(Deserialize)]
struct RawChain {
    certificates: Vec<RawBytes>,
}

#[derive(Deserialize, Default)]
struct RawTimestamps {
    #[serde(rename = "rfc3161Timestamps")]
    stamps: Option<Vec<RawStamp>>,
}

#[derive(Deserialize)]
struct RawStamp {
    #[serde(rename = "signedTimestamp")]
    bytes: Base64,
}

#[derive(Deserialize)]
struct RawMessage {
    signature: Base64,
}

#[derive(Deserialize)]
struct RawEntry {
    #[serde(rename = "logIndex", default)]
    number: Number,
    #[serde(rename = "logId")]
    log: RawLog,
    #[serde(rename = "integratedTime", default)]
    moment: Number,
    #[serde(rename = "inclusionPromise")]
    promise: Option<RawPromise>,
    #[serde(rename = "inclusionProof")]
    proof: Option<RawProof>,
    #[serde(rename = "canonicalizedBody")]
    body: Base64,
}

#[derive(Deserialize)]
struct RawLog {
    #[serde(rename = "keyId")]
    id: Base64,
}

#[derive(Deserialize)]
struct RawPromise {
    #[serde(rename = "signedEntryTimestamp")]
    signature: Base64,
}

#[derive(Deserialize)]
struct RawProof {
    #[serde(rename = "logIndex", default)]
    index: Number,
    #[serde(rename = "treeSize")]
    size: Number,
    #[serde(rename = "rootHash")]
    root: Base64,
    #[serde(default)]
    hashes: Vec<Base64>,
    checkpoint: RawCheckpoint,
}

#[derive(Deserialize)]
struct RawCheckpoint {
    envelope: String,
}

impl RawEntry {
    fn read(self) -> Result<Entry, Refusal> {
        let proof = match self.proof {
            Some(proof) if proof.hashes.len() > MAX_HASHES => {
                return Err(wrong("a proof in it is too long"));
            }
            Some(proof) => Some(Proof {
                index: proof.index.0,
                size: proof.size.0,
                root: proof.root.0,
                hashes: proof.hashes.into_iter().map(|hash| hash.0).collect(),
                checkpoint: proof.checkpoint.envelope,
            }),
            None => None,
        };
        Ok(Entry {
            log: self.log.id.0,
            number: self.number.0,
            moment: self.moment.0,
            body: self.body.0,
            promise: self.promise.map(|promise| promise.signature.0),
            proof,
        })
    }
}
