//! Signatures found for an image.

use std::collections::HashSet;
use std::hash::Hash;

use serde::{Deserialize, Serialize};

use super::accepted::Accepted;
use crate::Digest;

/// Unverified signatures of an image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Evidence {
    /// Manifests and indexes on the way to the image. A signature of any of them signs the image.
    #[serde(default)]
    pub(crate) manifests: Vec<Digest>,
    /// The signatures of these manifests.
    #[serde(default)]
    pub(crate) signatures: Vec<Signature>,
    /// The bundles that refer to these manifests, as JSON.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) bundles: Vec<String>,
    /// The attestations at their tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) attestations: Vec<Attestation>,
    /// GPG-signed messages found for these manifests, in base64.
    #[serde(default)]
    pub(crate) messages: Vec<String>,
}

/// A signature as it came from a registry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Signature {
    /// The signed payload.
    pub(crate) payload: String,
    /// The signature in base64.
    pub(crate) signature: String,
    /// The signer's certificate, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) certificate: Option<String>,
    /// Certificates supplied with it, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) chain: Option<String>,
    /// The log entry, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) log: Option<String>,
    /// Whether it has a timestamp of an authority.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_stamped: bool,
}

/// An attestation that is not in a bundle, as it came from a registry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Attestation {
    /// The envelope with the signed statement and its signature, as JSON.
    pub(crate) envelope: String,
    /// The signer's certificate, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) certificate: Option<String>,
    /// Certificates supplied with it, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) chain: Option<String>,
    /// The log entry, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) log: Option<String>,
    /// Whether it has a timestamp of an authority.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_stamped: bool,
}

/// The findings of a pull.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// The repository that was searched: a name without tag and digest.
    pub(crate) repository: String,
    pub(crate) evidence: Evidence,
    pub(crate) accepted: Accepted,
    pub(crate) complete: Complete,
}

/// The kinds of signatures for which the search was complete: all places were asked successfully.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Complete {
    /// Signatures and bundles.
    pub(crate) attached: bool,
    /// Attestations at their tags.
    pub(crate) attestations: bool,
    pub(crate) messages: bool,
}

impl Evidence {
    /// Returns its size, without the digests.
    pub(super) fn bytes(&self) -> usize {
        let texts = self.bundles.iter().chain(&self.messages).map(String::len);
        let signatures = self.signatures.iter().map(Signature::bytes);
        let attestations = self.attestations.iter().map(Attestation::bytes);
        texts.chain(signatures).chain(attestations).sum()
    }
}

impl Signature {
    /// Returns its size, including certificates and log entry.
    pub(crate) fn bytes(&self) -> usize {
        let beside = [&self.certificate, &self.chain, &self.log];
        self.payload.len() + self.signature.len() + bytes_of(beside)
    }
}

impl Attestation {
    /// Returns its size, including certificates and log entry.
    pub(super) fn bytes(&self) -> usize {
        let beside = [&self.certificate, &self.chain, &self.log];
        self.envelope.len() + bytes_of(beside)
    }
}

fn bytes_of(beside: [&Option<String>; 3]) -> usize {
    beside.into_iter().flatten().map(String::len).sum()
}

/// Removes duplicates, and keeps the first of each.
pub(super) fn distinct<T: Clone + Eq + Hash>(all: Vec<T>) -> Vec<T> {
    let mut seen = HashSet::new();
    all.into_iter()
        .filter(|one| seen.insert(one.clone()))
        .collect()
}
