//! Signatures at a tag made from the manifest's digest, the original place of cosign.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde::Deserialize;

use crate::evidence::Signature;
use crate::manifest::RawDescriptor;
use crate::policy::tag_of;
use crate::registry::Remote;
use crate::{Digest, Error, Result};

/// Media type of a layer that is a signature's payload.
const SIGNATURE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";

/// Maximum number of signatures per manifest.
const MAX_SIGNATURES: usize = 64;
/// Maximum size of a payload; a few hundred bytes are usual.
const MAX_PAYLOAD: u64 = 16 << 10;
/// Maximum length of a signature. The longest key makes signatures of 1368 characters.
const MAX_SIGNATURE: usize = 4 << 10;
/// Maximum size of a certificate, its chain or a log entry; a few thousand bytes are usual.
const MAX_BESIDE: usize = 32 << 10;

/// Fetches the signatures at the tag that cosign uses for this manifest.
pub(super) async fn at_tag(remote: &Remote, digest: &Digest) -> Result<Vec<Signature>> {
    let Some(tag) = tag_of(digest) else {
        return Ok(Vec::new());
    };
    match remote.attachment(&tag).await {
        Ok(fetched) => of_manifest(remote, digest, &fetched.bytes).await,
        Err(Error::NotInRegistry { .. }) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Fetches the signatures that a manifest lists.
pub(super) async fn of_manifest(
    remote: &Remote,
    signed: &Digest,
    manifest: &[u8],
) -> Result<Vec<Signature>> {
    let what = format!("the signatures of {signed}");
    let mut payloads: HashMap<Digest, String> = HashMap::new();
    let mut signatures = Vec::new();
    for (digest, mut signature) in listed(&what, manifest)? {
        // Several signatures often have the same payload.
        signature.payload = match payloads.entry(digest) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(free) => free.insert(payload(remote, &what, digest).await?).clone(),
        };
        signatures.push(signature);
    }
    Ok(signatures)
}

/// Fetches the payload of a signature.
async fn payload(remote: &Remote, what: &str, digest: Digest) -> Result<String> {
    let bytes = remote.small_blob(what, digest).await?;
    if bytes.len() as u64 > MAX_PAYLOAD {
        return Err(too_large(what));
    }
    // A payload that is not text cannot be a signature of an image.
    Ok(String::from_utf8(bytes).unwrap_or_default())
}

/// Returns the payload digests and signatures that a manifest lists. The payloads are not fetched yet.
pub(crate) fn listed(what: &str, manifest: &[u8]) -> Result<Vec<(Digest, Signature)>> {
    let manifest: Attachment =
        serde_json::from_slice(manifest).map_err(|error| Error::invalid(what, error))?;
    let mut found = Vec::new();
    for layer in manifest.layers {
        let annotations = layer.annotations.unwrap_or_default();
        let is_signature = layer.descriptor.media_type == SIGNATURE;
        let Some(signature) = annotations.signature.filter(|_| is_signature) else {
            continue;
        };
        if found.len() == MAX_SIGNATURES {
            return Err(Error::too_large(
                what,
                format!("{MAX_SIGNATURES} signatures"),
            ));
        }
        let beside = [
            &annotations.certificate,
            &annotations.chain,
            &annotations.log,
        ];
        let beside = beside.into_iter().flatten().map(String::len).max();
        if layer.descriptor.size > MAX_PAYLOAD
            || signature.len() > MAX_SIGNATURE
            || beside.is_some_and(|most| most > MAX_BESIDE)
        {
            return Err(too_large(what));
        }
        let digest = layer.descriptor.digest.parse();
        let signature = Signature {
            payload: String::new(),
            signature,
            certificate: annotations.certificate,
            chain: annotations.chain,
            log: annotations.log,
            is_stamped: annotations.timestamp.is_some(),
        };
        found.push((
            digest.map_err(|error| Error::invalid(what, error))?,
            signature,
        ));
    }
    Ok(found)
}

fn too_large(what: &str) -> Error {
    Error::too_large(
        format!("one of {what}"),
        format!(
            "{MAX_PAYLOAD} bytes, {MAX_SIGNATURE} bytes for the signature itself and {MAX_BESIDE} \
             bytes for each annotation"
        ),
    )
}

/// A manifest whose layers are signatures.
#[derive(Deserialize)]
struct Attachment {
    layers: Vec<AttachedLayer>,
}

#[derive(Deserialize)]
struct AttachedLayer {
    #[serde(flatten)]
    descriptor: RawDescriptor,
    annotations: Option<Annotations>,
}

#[derive(Deserialize, Default)]
struct Annotations {
    #[serde(rename = "dev.cosignproject.cosign/signature")]
    signature: Option<String>,
    #[serde(rename = "dev.sigstore.cosign/certificate")]
    certificate: Option<String>,
    #[serde(rename = "dev.sigstore.cosign/chain")]
    chain: Option<String>,
    #[serde(rename = "dev.sigstore.cosign/bundle")]
    log: Option<String>,
    #[serde(rename = "dev.sigstore.cosign/rfc3161timestamp")]
    timestamp: Option<serde::de::IgnoredAny>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn layer(changes: &serde_json::Value) -> serde_json::Value {
        let mut layer = json!({
            "mediaType": SIGNATURE,
            "digest": Digest::of(b"payload").to_string(),
            "size": 7,
            "annotations": { "dev.cosignproject.cosign/signature": "c2ln", "other": "x" },
        });
        for (key, value) in changes.as_object().unwrap() {
            layer[key] = value.clone();
        }
        layer
    }

    fn list(layers: &[serde_json::Value]) -> Result<usize> {
        let manifest = json!({ "schemaVersion": 2, "layers": layers }).to_string();
        listed("x", manifest.as_bytes()).map(|found| found.len())
    }

    #[test]
    fn only_signatures_are_taken_from_a_manifest() {
        let layers = [
            layer(&json!({})),
            layer(&json!({ "mediaType": "application/vnd.in-toto+json" })),
            layer(&json!({ "annotations": {} })),
            layer(&json!({ "annotations": null })),
        ];
        assert_eq!(list(&layers).unwrap(), 1);
        assert_eq!(list(&[]).unwrap(), 0);
    }

    #[test]
    fn what_is_too_much_or_malformed_is_refused() {
        let many = vec![layer(&json!({})); 5000];
        assert_eq!(list(&many[..MAX_SIGNATURES]).unwrap(), MAX_SIGNATURES);
        let error = list(&many).unwrap_err().to_string();
        assert_eq!(error, "x exceeds the limit of 64 signatures");
        let long = "A".repeat(MAX_SIGNATURE + 1);
        for changes in [
            json!({ "size": MAX_PAYLOAD + 1 }),
            json!({ "size": u64::MAX }),
            json!({ "annotations": { "dev.cosignproject.cosign/signature": long } }),
        ] {
            let error = list(&[layer(&changes)]).unwrap_err();
            assert!(matches!(error, Error::TooLarge { .. }), "{error}");
        }
        for changes in [
            json!({ "digest": "sha256:1" }),
            json!({ "size": -1 }),
            json!({ "annotations": { "dev.cosignproject.cosign/signature": 1 } }),
        ] {
            let error = list(&[layer(&changes)]).unwrap_err();
            assert!(matches!(error, Error::InvalidImage { .. }), "{error}");
        }
        for text in ["", "[]", "{}", r#"{"layers":null}"#, "{\"layers\":[[]]}"] {
            listed("x", text.as_bytes()).unwrap_err();
        }
    }
}
