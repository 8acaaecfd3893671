//! Requests to key providers, which are programs or services that unwrap keys, and their responses. This module only
//! encodes and decodes; the caller transmits.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::json;
use zeroize::Zeroizing;

use crate::options::decode;

/// A response that cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the response of the key provider is malformed")]
pub struct Malformed;

/// Returns the request to unwrap a key.
pub fn question(wrapped: &[u8]) -> Vec<u8> {
    json!({
        "op": "keyunwrap",
        "keywrapparams": {},
        "keyunwrapparams": {
            "dc": { "Parameters": {} },
            "annotation": BASE64_STANDARD.encode(wrapped),
        },
    })
    .to_string()
    .into_bytes()
}

#[derive(Deserialize)]
struct Answer {
    keyunwrapresults: Results,
}

#[derive(Deserialize)]
struct Results {
    optsdata: Zeroizing<String>,
}

/// Parses a provider's response, the unwrapped key.
pub fn answer(bytes: &[u8]) -> Result<Zeroizing<Vec<u8>>, Malformed> {
    let answer: Answer = serde_json::from_slice(bytes).map_err(|_| Malformed)?;
    let opened = decode(&answer.keyunwrapresults.optsdata).ok_or(Malformed)?;
    Ok(Zeroizing::new(opened))
}
