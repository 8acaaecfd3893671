//! Signatures in cosign's format before bundles: separate from the signed message, with all other data in
//! annotations.

use std::borrow::Cow;

use serde::Deserialize;

use crate::authorities::{MAX_CHAIN, certificates};
use crate::entry::Entry;
use crate::signed::Evidence;
use crate::text::{Base64, Hex, Number};
use crate::{By, Demand, Refusal, Signer};

/// An unverified signature and its message.
#[derive(Debug, Clone, Copy)]
pub struct Detached<'a> {
    /// The signed message.
    pub message: &'a [u8],
    /// The signature.
    pub signature: &'a [u8],
    /// The data that came with the signature.
    pub beside: Beside<'a>,
}

/// The data that comes with a signature outside of a bundle.
#[derive(Debug, Clone, Copy, Default)]
pub struct Beside<'a> {
    /// The signer's certificate, in PEM.
    pub certificate: Option<&'a str>,
    /// Further certificates, in PEM.
    pub chain: Option<&'a str>,
    /// The log's entry and timestamp, as JSON.
    pub log: Option<&'a str>,
    /// Whether there is a timestamp of an authority (RFC 3161).
    pub is_stamped: bool,
}

impl Detached<'_> {
    /// Verifies the signature and returns the signer.
    pub fn verify(&self, demand: &Demand<'_>) -> Result<By, Refusal> {
        let message = Cow::Borrowed(self.message);
        self.beside.verify(message, None, self.signature, demand)
    }
}

impl Beside<'_> {
    /// Verifies a signature that came with this data, and returns the signer.
    pub(crate) fn verify(
        &self,
        message: Cow<'_, [u8]>,
        payload: Option<&[u8]>,
        signature: &[u8],
        demand: &Demand<'_>,
    ) -> Result<By, Refusal> {
        // Data that the policy does not require is not parsed.
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

/// Parses the log entry that cosign stores with a signature.
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
