//! A transparency log of signatures, like Rekor.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::Key;
use crate::image::digest;

/// A transparency log of signatures.
#[derive(Debug)]
pub struct TransparencyLog {
    /// Key of the log.
    pub key: Key,
    name: String,
}

/// An entry of the log in its representations.
#[derive(Debug, Clone)]
pub struct LogEntry {
    /// Format in bundles.
    pub bundled: Value,
    /// Format that cosign writes beside a signature.
    pub detached: Value,
    /// Response of the log to the client that adds the entry.
    pub answered: Value,
}

impl TransparencyLog {
    /// Creates an empty log.
    pub fn new(name: &str) -> Self {
        Self::with(name, Key::new())
    }

    /// Creates an empty log with this key.
    pub fn with(name: &str, key: Key) -> Self {
        Self {
            key,
            name: name.to_owned(),
        }
    }

    /// Adds an entry, as the sixth of eleven.
    pub fn enter(&self, body: &Value, at: u64) -> LogEntry {
        let (index, size) = (5, 11);
        let (number, kind, version) = (1005, &body["kind"], &body["apiVersion"]);
        let text = body.to_string();
        let encoded = BASE64_STANDARD.encode(&text);
        let id = Sha256::digest(self.key.der());
        let digits = digest(&self.key.der())[7..].to_owned();
        let promised = format!(
            r#"{{"body":"{encoded}","integratedTime":{at},"logID":"{digits}","logIndex":{number}}}"#
        );
        let promise = BASE64_STANDARD.encode(self.key.sign(promised.as_bytes()));
        let entries: Vec<Vec<u8>> = (0..size)
            .map(|one| {
                if one == index {
                    text.clone().into_bytes()
                } else {
                    vec![one as u8]
                }
            })
            .collect();
        let root = tree(&entries);
        let proof: Vec<String> = path(index, &entries)
            .iter()
            .map(|hash| BASE64_STANDARD.encode(hash))
            .collect();
        let bundled = json!({
            "logIndex": number.to_string(),
            "logId": { "keyId": BASE64_STANDARD.encode(id) },
            "kindVersion": { "kind": kind, "version": version },
            "integratedTime": at.to_string(),
            "inclusionPromise": { "signedEntryTimestamp": promise },
            "inclusionProof": {
                "logIndex": index.to_string(),
                "rootHash": BASE64_STANDARD.encode(root),
                "treeSize": size.to_string(),
                "hashes": proof,
                "checkpoint": { "envelope": self.checkpoint(size, &root) },
            },
            "canonicalizedBody": encoded,
        });
        let detached = json!({
            "SignedEntryTimestamp": promise,
            "Payload": { "body": encoded, "integratedTime": at, "logIndex": number, "logID": digits },
        });
        let digits_of = |hash: &[u8]| {
            hash.iter().fold(String::new(), |mut all, byte| {
                let _ = write!(all, "{byte:02x}");
                all
            })
        };
        let uuid = format!("{:016x}{}", 1, digits_of(&hash(0, &[text.as_bytes()])));
        let hashes: Vec<String> = path(index, &entries)
            .iter()
            .map(|one| digits_of(one))
            .collect();
        let answered = json!({ uuid: {
            "body": encoded,
            "integratedTime": at,
            "logID": digits,
            "logIndex": number,
            "verification": {
                "inclusionProof": {
                    "checkpoint": self.checkpoint(size, &root),
                    "hashes": hashes,
                    "logIndex": index,
                    "rootHash": digits_of(&root),
                    "treeSize": size,
                },
                "signedEntryTimestamp": promise,
            },
        } });
        LogEntry {
            bundled,
            detached,
            answered,
        }
    }

    /// Returns a signed checkpoint of its tree (C2SP, tlog-checkpoint).
    pub fn checkpoint(&self, size: usize, root: &[u8]) -> String {
        let name = &self.name;
        let text = format!("{name}\n{size}\n{}\n", BASE64_STANDARD.encode(root));
        let mut signed = Sha256::digest(self.key.der())[..4].to_vec();
        signed.extend_from_slice(&self.key.sign(text.as_bytes()));
        format!(
            "{text}\n\u{2014} {name} {}\n",
            BASE64_STANDARD.encode(signed)
        )
    }
}

/// Returns the root hash of a tree (RFC 9162, 2.1.1).
fn tree(entries: &[Vec<u8>]) -> [u8; 32] {
    if let [one] = entries {
        return hash(0, &[one]);
    }
    let (left, right) = entries.split_at(entries.len().next_power_of_two() / 2);
    hash(1, &[&tree(left), &tree(right)])
}

/// Returns the inclusion proof of an entry (RFC 9162, 2.1.3.1).
fn path(index: usize, entries: &[Vec<u8>]) -> Vec<[u8; 32]> {
    if entries.len() == 1 {
        return Vec::new();
    }
    let (left, right) = entries.split_at(entries.len().next_power_of_two() / 2);
    let (mut path, other) = if index < left.len() {
        (path(index, left), tree(right))
    } else {
        (path(index - left.len(), right), tree(left))
    };
    path.push(other);
    path
}

fn hash(kind: u8, parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update([kind]);
    for part in parts {
        hash.update(part);
    }
    hash.finalize().into()
}
