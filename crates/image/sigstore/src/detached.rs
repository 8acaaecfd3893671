//! Signatures as cosign kept them before there were bundles: beside what was signed, with all else in annotations.

use std::borrow::Cow;

use serde::Deserialize;

use crate::authorities::{MAX_CHAIN, certificates};
use crate::entry::Entry;
use crate::signed::Evidence;
use crate::text::{Base64, Hex, Number};
use crate::{By, Demand, Refusal, Signer};

/// A signature and what was signed, of which nothing is verified yet.
#[derive(Debug, Clone, Copy)]
pub struct Detached<'a> {
    /// What was signed.
    pub message: &'a [u8],
    /// The signature.
    pub signature: &'a [u8],
    /// What came with it.
    pub beside: Beside<'a>,
}

/// What stands beside a signature that is in no bundle.
#[derive(Debug, Clone, Copy, Default)]
pub struct Beside<'a> {
    /// The signer's certificate, in PEM.
    pub certificate: Option<&'a str>,
    /// Certificates that came with it, in PEM.
    pub chain: Option<&'a str>,
    /// The log's entry and timestamp, as JSON.
    pub log: Option<&'a str>,
    /// Whether an authority has said when it was made (RFC 3161).
    pub is_stamped: bool,
}

impl Detached<'_> {
    /// By whom it is.
    pub fn verify(&self, demand: &Demand<'_>) -> Result<By, Refusal> {
        let message = Cow::Borrowed(self.message);
        self.beside.verify(message, None, self.signature, demand)
    }
}

impl Beside<'_> {
    /// By whom a signature is that this stands beside.
    pub(crate) fn verify(
        &self,
        message: Cow<'_, [u8]>,
        payload: Option<&[u8]>,
        signature: &[u8],
        demand: &Demand<'_>,
    ) -> Result<By, Refusal> {
        // What nobody asks for is not even read.
        let found = match demand.signer {
            Signer::Keys(_) => Vec::new(),
            Signer::Identity(_) => self.certificates()?,
        };
        let entries = match (demand.logs, self.log) {
            (Some(_), Some(log)) => vec![entry(log)?],
            _ => Vec::new(),
        };
        demand.check(&Evidence {
            message,
            payload,
            signature,
            certificates: Cow::Owned(found),
            entries: Cow::Owned(entries),
            stamps: &[],
            is_stamped: self.is_stamped,
        })
    }

    fn certificates(&self) -> Result<Vec<Vec<u8>>, Refusal> {
        let Some(leaf) = self.certificate else {
            return Ok(Vec::new());
        };
        let leaf = certificates(leaf.as_bytes(), 1)
            .map_err(|reason| Refusal::malformed("its certificate", reason))?;
        let chain = match self.chain {
            Some(chain) if !chain.is_empty() => certificates(chain.as_bytes(), MAX_CHAIN)
                .map_err(|reason| Refusal::malformed("the chain of its certificate", reason))?,
            _ => Vec::new(),
        };
        let all = leaf.iter().chain(&chain);
        Ok(all.map(|one| one.to_vec()).collect())
    }
}

/// Reads the log's entry that cosign writes beside a signature.
fn entry(json: &str) -> Result<Entry, Refusal> {
    let raw: Raw = serde_json::from_slice(json.as_bytes())
        .map_err(|error| Refusal::malformed("the log entry", error))?;
    Ok(Entry {
        log: raw.payload.log.0,
        number: raw.payload.number.0,
        moment: raw.payload.moment.0,
        body: raw.payload.body.0,
        promise: Some(raw.promise.0),
        proof: None,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(rename = "SignedEntryTimestamp")]
    promise: Base64,
    #[serde(rename = "Payload")]
    payload: RawPayload,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPayload {
    body: Base64,
    #[serde(rename = "integratedTime")]
    moment: Number,
    #[serde(rename = "logIndex")]
    number: Number,
    #[serde(rename = "logID")]
    log: Hex,
}
