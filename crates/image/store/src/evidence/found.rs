//! What is found of an image's signatures.

use std::collections::HashSet;
use std::hash::Hash;

use serde::{Deserialize, Serialize};

use super::accepted::Accepted;
use crate::Digest;

/// Signatures of an image, none of them verified yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Evidence {
    /// Manifests and indexes that have led to the image; who signs one of them signs the image.
    #[serde(default)]
    pub(crate) manifests: Vec<Digest>,
    /// The signatures found with these.
    #[serde(default)]
    pub(crate) signatures: Vec<Signature>,
    /// The bundles attached to these, as JSON.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) bundles: Vec<String>,
    /// The attestations at their tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) attestations: Vec<Attestation>,
    /// Messages signed with GPG that were found for these, in base64.
    #[serde(default)]
    pub(crate) messages: Vec<String>,
}

/// A signature as it came from a registry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Signature {
    /// What was signed.
    pub(crate) payload: String,
    /// The signature in base64.
    pub(crate) signature: String,
    /// The signer's certificate, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) certificate: Option<String>,
    /// Certificates that came with it, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) chain: Option<String>,
    /// What a log says of it, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) log: Option<String>,
    /// Whether an authority has said when it was made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_stamped: bool,
}

/// An attestation that is in no bundle, as it came from a registry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Attestation {
    /// What was signed, with the signature: an envelope, as JSON.
    pub(crate) envelope: String,
    /// The signer's certificate, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) certificate: Option<String>,
    /// Certificates that came with it, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) chain: Option<String>,
    /// What a log says of it, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) log: Option<String>,
    /// Whether an authority has said when it was made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_stamped: bool,
}

/// What a pull has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// Whose they are: a name without tag and digest.
    pub(crate) repository: String,
    pub(crate) evidence: Evidence,
    pub(crate) accepted: Accepted,
    pub(crate) complete: Complete,
}

/// Of which kinds there was nothing else: no place that could not be asked, or was not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Complete {
    /// Signatures and bundles.
    pub(crate) attached: bool,
    /// Attestations at their tags.
    pub(crate) attestations: bool,
    pub(crate) messages: bool,
}

impl Evidence {
    /// How long it is, without the digests.
    pub(super) fn bytes(&self) -> usize {
        let texts = self.bundles.iter().chain(&self.messages).map(String::len);
        let signatures = self.signatures.iter().map(Signature::bytes);
        let attestations = self.attestations.iter().map(Attestation::bytes);
        texts.chain(signatures).chain(attestations).sum()
    }
}

impl Signature {
    /// How long it is, with all that came with it.
    pub(crate) fn bytes(&self) -> usize {
        let beside = [&self.certificate, &self.chain, &self.log];
        self.payload.len() + self.signature.len() + bytes_of(beside)
    }
}

impl Attestation {
    /// How long it is, with all that came with it.
    pub(super) fn bytes(&self) -> usize {
        let beside = [&self.certificate, &self.chain, &self.log];
        self.envelope.len() + bytes_of(beside)
    }
}

fn bytes_of(beside: [&Option<String>; 3]) -> usize {
    beside.into_iter().flatten().map(String::len).sum()
}

/// Each thing where it is for the first time.
pub(super) fn distinct<T: Clone + Eq + Hash>(all: Vec<T>) -> Vec<T> {
    let mut seen = HashSet::new();
    all.into_iter()
        .filter(|one| seen.insert(one.clone()))
        .collect()
}
