//! A log of signatures, as Rekor is.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::Key;
use crate::image::digest;

/// A log of signatures.
#[derive(Debug)]
pub struct TransparencyLog {
    /// Its key.
    pub key: Key,
    name: String,
}

/// What a log says of an entry.
#[derive(Debug, Clone)]
pub struct LogEntry {
    /// As bundles have it.
    pub bundled: Value,
    /// As cosign writes it beside a signature.
    pub detached: Value,
    /// As the log itself answers who has it entered.
    pub answered: Value,
}

impl TransparencyLog {
    /// An empty log.
    pub fn new(name: &str) -> Self {
        Self::with(name, Key::new())
    }

    /// An empty log with this key.
    pub fn with(name: &str, key: Key) -> Self {
        Self {
            key,
            name: name.to_owned(),
        }
    }

    /// Takes an entry, as the sixth of eleven.
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

    /// What it signs of its tree (C2SP, tlog-checkpoint).
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

/// The hash of a tree (RFC 9162, 2.1.1).
fn tree(entries: &[Vec<u8>]) -> [u8; 32] {
    if let [one] = entries {
        return hash(0, &[one]);
    }
    let (left, right) = entries.split_at(entries.len().next_power_of_two() / 2);
    hash(1, &[&tree(left), &tree(right)])
}

/// The proof that an entry is in it (RFC 9162, 2.1.3.1).
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
