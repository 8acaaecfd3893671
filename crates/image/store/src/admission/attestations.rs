//! Attestations at a tag made from the manifest's digest, where cosign stored them up to version 2.

use futures_util::future::try_join_all;
use serde::Deserialize;

use crate::evidence::Attestation;
use crate::manifest::RawDescriptor;
use crate::policy::tag_of_attestations;
use crate::registry::Remote;
use crate::{Digest, Error, Result};

/// Media type of a layer that is an attestation envelope.
const ENVELOPE: &str = "application/vnd.dsse.envelope.v1+json";

/// Maximum number of attestations per manifest.
const MAX_ATTESTATIONS: usize = 32;
/// Maximum size of an attestation. A provenance has a few thousand bytes, an SBOM may have many more.
const MAX_ENVELOPE: u64 = 1 << 20;
/// Maximum size of all attestations of one manifest.
const MAX_TOGETHER: u64 = 4 << 20;
/// Maximum size of a certificate, its chain or a log entry; a few thousand bytes are usual.
const MAX_BESIDE: usize = 32 << 10;

/// Fetches the attestations at the tag that cosign uses for this manifest.
pub(super) async fn at_tag(remote: &Remote, digest: &Digest) -> Result<Vec<Attestation>> {
    let Some(tag) = tag_of_attestations(digest) else {
        return Ok(Vec::new());
    };
    let fetched = match remote.attachment(&tag).await {
        Ok(fetched) => fetched,
        Err(Error::NotInRegistry { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let what = format!("the attestations of {digest}");
    let listed = listed_attestations(&what, &fetched.bytes)?;
    let fetched = listed
        .iter()
        .map(|(layer, _)| envelope(remote, &what, layer));
    let envelopes = try_join_all(fetched).await?;
    let attestations = listed.into_iter().zip(envelopes);
    Ok(attestations
        .map(|((_, beside), envelope)| Attestation { envelope, ..beside })
        .collect())
}

/// Fetches the envelope with the signed statement and its signature.
async fn envelope(remote: &Remote, what: &str, layer: &Layer) -> Result<String> {
    let bytes = remote.small_blob(what, layer.digest).await?;
    if bytes.len() as u64 != layer.size {
        return Err(Error::invalid(
            what,
            "the size of one attestation differs from the size in the manifest",
        ));
    }
    String::from_utf8(bytes).map_err(|error| Error::invalid(what, error))
}

/// Location of an envelope.
#[derive(Debug)]
pub(crate) struct Layer {
    digest: Digest,
    size: u64,
}

/// Returns the envelopes that a manifest of attestations lists, with their certificates and log entries.
pub(crate) fn listed_attestations(
    what: &str,
    manifest: &[u8],
) -> Result<Vec<(Layer, Attestation)>> {
    let manifest: Manifest =
        serde_json::from_slice(manifest).map_err(|error| Error::invalid(what, error))?;
    let mut found = Vec::new();
    let mut together: u64 = 0;
    for layer in manifest.layers {
        let descriptor = layer.descriptor;
        if descriptor.media_type != ENVELOPE {
            continue;
        }
        let beside = layer.annotations.unwrap_or_default();
        if found.len() == MAX_ATTESTATIONS {
            let limit = format!("{MAX_ATTESTATIONS} attestations");
            return Err(Error::too_large(what, limit));
        }
        together = together.saturating_add(descriptor.size);
        let longest = [&beside.certificate, &beside.chain, &beside.log];
        let longest = longest.into_iter().flatten().map(String::len).max();
        if descriptor.size > MAX_ENVELOPE
            || together > MAX_TOGETHER
            || longest.is_some_and(|longest| longest > MAX_BESIDE)
        {
            let limit = format!(
                "{MAX_ENVELOPE} bytes each, {MAX_TOGETHER} bytes in total and {MAX_BESIDE} bytes \
                 for each annotation"
            );
            return Err(Error::too_large(format!("one of {what}"), limit));
        }
        let digest = descriptor.digest.parse();
        let layer = Layer {
            digest: digest.map_err(|error| Error::invalid(what, error))?,
            size: descriptor.size,
        };
        let attestation = Attestation {
            envelope: String::new(),
            certificate: beside.certificate,
            chain: beside.chain,
            log: beside.log,
            is_stamped: beside.timestamp.is_some(),
        };
        found.push((layer, attestation));
    }
    Ok(found)
}

/// A manifest whose layers are attestations.
#[derive(Deserialize)]
struct Manifest {
    layers: Vec<AttachedLayer>,
}

#[derive(Deserialize)]
struct AttachedLayer {
    #[serde(flatten)]
    descriptor: RawDescriptor,
    annotations: Option<Beside>,
}

#[derive(Deserialize, Default)]
struct Beside {
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
    use serde_json::{Value, json};

    use super::*;

    fn layer(size: u64, annotations: &Value) -> Value {
        json!({
            "mediaType": ENVELOPE,
            "digest": Digest::of(b"envelope").to_string(),
            "size": size,
            "annotations": annotations,
        })
    }

    fn list(layers: &[Value]) -> Result<usize> {
        let manifest = json!({ "schemaVersion": 2, "layers": layers }).to_string();
        listed_attestations("x", manifest.as_bytes()).map(|found| found.len())
    }

    #[test]
    fn only_envelopes_are_taken_and_not_too_many_or_too_large_ones() {
        let one = |size| layer(size, &json!({ "predicateType": "x" }));
        let mut other = one(1);
        other["mediaType"] = json!("application/vnd.in-toto+json");
        assert_eq!(list(&[one(1), other, layer(1, &Value::Null)]).unwrap(), 2);
        assert_eq!(list(&vec![one(1); 32]).unwrap(), 32);
        assert_eq!(list(&vec![one(1 << 20); 4]).unwrap(), 4);
        let long = "A".repeat(MAX_BESIDE + 1);
        for layers in [
            vec![one(1); 33],
            vec![one((1 << 20) + 1)],
            vec![one(1 << 20); 5],
            vec![one(1 << 19); 9],
            vec![one(u64::MAX); 2],
            vec![layer(
                1,
                &json!({ "dev.sigstore.cosign/certificate": long }),
            )],
            vec![layer(1, &json!({ "dev.sigstore.cosign/chain": long }))],
            vec![layer(1, &json!({ "dev.sigstore.cosign/bundle": long }))],
        ] {
            let error = list(&layers).unwrap_err();
            assert!(matches!(error, Error::TooLarge { .. }), "{error}");
        }
        let mut broken = one(1);
        broken["digest"] = json!("sha256:1");
        assert!(matches!(list(&[broken]), Err(Error::InvalidImage { .. })));
        for text in ["", "[]", "{}", r#"{"layers":null}"#, "{\"layers\":[[]]}"] {
            listed_attestations("x", text.as_bytes()).unwrap_err();
        }
    }
}
