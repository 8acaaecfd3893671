//! DSSE: a signed envelope around a statement.

use std::borrow::Cow;

use serde::Deserialize;

use crate::text::Base64;
use crate::{Beside, By, Demand, Refusal};

/// The payload type of a statement's envelope.
const STATEMENT: &str = "application/vnd.in-toto+json";

/// An envelope with one signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    pub(crate) kind: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) signature: Vec<u8>,
}

impl Envelope {
    /// Parses an envelope outside of a bundle, as JSON.
    pub fn parse(json: &[u8]) -> Result<Self, Refusal> {
        let raw: RawEnvelope =
            serde_json::from_slice(json).map_err(|error| Refusal::malformed(WHAT, error))?;
        raw.read()
    }

    /// Verifies the envelope with the data that came with it, and returns the signer.
    pub fn verify(&self, beside: Beside<'_>, demand: &Demand<'_>) -> Result<By, Refusal> {
        let message = Cow::Owned(self.message());
        beside.verify(message, Some(&self.payload), &self.signature, demand)
    }

    /// Returns the statement's bytes. They are only trustworthy after the signature is verified.
    pub fn statement(&self) -> Result<&[u8], Refusal> {
        if self.kind == STATEMENT {
            return Ok(&self.payload);
        }
        let problem = format!("its envelope contains {:?}, not a statement", self.kind);
        Err(Refusal::Unsupported(problem))
    }

    /// Returns the signature.
    pub fn signature(&self) -> &[u8] {
        &self.signature
    }

    /// Returns the signed bytes: the payload and its type, so that one type cannot be mistaken for another (the
    /// "pre-authentication encoding").
    pub(crate) fn message(&self) -> Vec<u8> {
        let (kind, payload) = (&self.kind, &self.payload);
        let mut message = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len()).into_bytes();
        message.extend_from_slice(payload);
        message
    }
}

const WHAT: &str = "the envelope";

#[derive(Deserialize)]
pub(crate) struct RawEnvelope {
    payload: Base64,
    #[serde(rename = "payloadType")]
    kind: String,
    signatures: Vec<RawSignature>,
}

#[derive(Deserialize)]
struct RawSignature {
    sig: Base64,
}

impl RawEnvelope {
    pub(crate) fn read(self) -> Result<Envelope, Refusal> {
        // With several signatures, the certificate and the log entry would be ambiguous.
        let [signature] = <[RawSignature; 1]>::try_from(self.signatures)
            .map_err(|_| Refusal::malformed(WHAT, "it does not have exactly one signature"))?;
        Ok(Envelope {
            kind: self.kind,
            payload: self.payload.0,
            signature: signature.sig.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lengths_stand_before_what_they_are_of() {
        let envelope = Envelope {
            kind: "http://example.com/HelloWorld".to_owned(),
            payload: b"hello world".to_vec(),
            signature: Vec::new(),
        };
        // The example of DSSE's specification.
        let message = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world";
        assert_eq!(envelope.message(), message);
        assert!(matches!(envelope.statement(), Err(Refusal::Unsupported(_))));
    }
}
