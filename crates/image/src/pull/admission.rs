//! Whether a pull may go on: the policy's say, before a layer is fetched, and the signatures that
//! it is said by.
//!
//! Signatures are where cosign puts them, at a tag made of the manifest's digest; those that are made with
//! GPG are in a store beside the registry.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::future::try_join_all;
use serde::Deserialize;

use super::task::{Context, Request};
use crate::blocking::blocking;
use crate::lookaside::{self, Base, Stores};
use crate::manifest::RawDescriptor;
use crate::policy::{Needs, Subject, tag_of};
use crate::registry::Remote;
use crate::store::{Evidence, Signature};
use crate::{Digest, Error, Reference, Result, Verdict};

/// The type of a layer that is a signature's document.
const SIGNATURE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";

/// Signatures of one manifest that are looked at.
const MAX_SIGNATURES: usize = 64;
/// Bytes of what one signature is about; a few hundred are usual.
const MAX_PAYLOAD: u64 = 16 << 10;
/// A signature by the longest key has 1368 characters.
const MAX_SIGNATURE: usize = 4 << 10;
/// How long signatures are waited for that nobody needs yet.
const PATIENCE: Duration = Duration::from_secs(5);

/// Says no where that needs neither a manifest nor a signature.
pub(super) async fn before(request: &Request) -> Result<()> {
    match &request.policy {
        Some(policy) if !policy.needs(&request.reference).any() => {
            judge(request, Evidence::default()).await.map(drop)
        }
        _ => Ok(()),
    }
}

/// Says no unless the signatures are as the policy wants them. Returns what is to be kept with
/// the image; nothing on a node without policies.
pub(super) async fn after(
    context: &Context,
    remote: &Remote,
    request: &Request,
    manifests: &[Digest],
) -> Result<Option<Evidence>> {
    if context.config.policies.is_empty() {
        return Ok(None);
    }
    // Another namespace, or the policy of tomorrow, may ask for those that this one does not need.
    let found = gather(context, remote, request, manifests, Others::Keep);
    // It is large, and a pull is held by others.
    let found = Box::pin(found).await?;
    if needs(request).any() {
        return judge(request, found).await.map(Some);
    }
    Ok(Some(found))
}

/// What the policy says, without refusing anything.
pub(super) async fn verdict(
    context: &Context,
    remote: &Remote,
    request: &Request,
    manifests: Vec<Digest>,
) -> Result<Option<Verdict>> {
    let Some(policy) = &request.policy else {
        return Ok(None);
    };
    let evidence = gather(context, remote, request, &manifests, Others::Leave);
    let evidence = Box::pin(evidence).await?;
    let (policy, name) = (Arc::clone(policy), request.reference.clone());
    let judged = blocking(move || {
        policy.judge(Subject {
            name: Some(&name),
            evidence: &evidence,
        })
    });
    judged.await.map(Some)
}

/// Refuses, or gives the evidence back.
async fn judge(request: &Request, evidence: Evidence) -> Result<Evidence> {
    let (policy, name) = (request.policy.clone(), request.reference.clone());
    blocking(move || {
        if let Some(policy) = policy {
            let subject = Subject {
                name: Some(&name),
                evidence: &evidence,
            };
            policy.judge(subject)?.into_result()?;
        }
        Ok(evidence)
    })
    .await
}

/// What is done about signatures that the policy does not ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Others {
    /// They are kept where they can be had soon.
    Keep,
    Leave,
}

/// Which signatures decide on the pull.
fn needs(request: &Request) -> Needs {
    let policy = request.policy.as_ref();
    policy.map_or_else(Needs::default, |policy| policy.needs(&request.reference))
}

/// The signatures of all that led to the image, from all places side by side.
async fn gather(
    context: &Context,
    remote: &Remote,
    request: &Request,
    manifests: &[Digest],
    others: Others,
) -> Result<Evidence> {
    let (needs, name) = (needs(request), &request.reference);
    let stores = match stores(context).await {
        Err(error) if needs.any() => return Err(error),
        Err(error) => {
            tracing::debug!(%error, "where signatures are can't be told");
            Stores::default()
        }
        Ok(stores) => stores,
    };
    let without_attached = stores.without_attachments(name);
    if let Some(file) = without_attached.filter(|_| needs.attached) {
        return Err(Error::Configuration {
            path: file.display().to_string(),
            reason: format!(
                "it says \"use-sigstore-attachments: false\" of {name}, whose policy asks for \
                 \"sigstoreSigned\": remove one of them"
            ),
        });
    }
    let attached = async {
        match without_attached {
            None => find(remote, manifests).await,
            Some(_) => Ok(Vec::new()),
        }
    };
    let messages = async {
        match stores.base(name) {
            Some(base) => messages(remote, base, manifests).await,
            None => Ok(Vec::new()),
        }
    };
    let (signatures, messages) = tokio::try_join!(
        wait(name, needs.attached, others, attached),
        wait(name, needs.messages, others, messages),
    )?;
    Ok(Evidence {
        manifests: manifests.to_vec(),
        signatures,
        messages,
    })
}

/// Waits for signatures as long as they are worth it.
async fn wait<S>(
    name: &Reference,
    needed: bool,
    others: Others,
    found: impl Future<Output = Result<Vec<S>>>,
) -> Result<Vec<S>> {
    if needed {
        return found.await;
    }
    if others == Others::Leave {
        return Ok(Vec::new());
    }
    Ok(match tokio::time::timeout(PATIENCE, found).await {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => {
            tracing::debug!(image = %name, %error, "signatures can't be had");
            Vec::new()
        }
        Err(_) => {
            tracing::debug!(image = %name, "signatures come too slowly");
            Vec::new()
        }
    })
}

/// Where signatures are beside registries, as it is said now.
async fn stores(context: &Context) -> Result<Stores> {
    match context.config.signature_stores.clone() {
        Some(dir) => blocking(move || Stores::read(&dir)).await,
        None => Ok(Stores::default()),
    }
}

/// The signed messages of all that led to the image.
async fn messages(remote: &Remote, base: &Base, manifests: &[Digest]) -> Result<Vec<String>> {
    let found = manifests.iter();
    let found = found.map(|digest| lookaside::find(remote, base, digest));
    let found = try_join_all(found).await?.into_iter().flatten();
    Ok(found
        .map(|message| BASE64_STANDARD.encode(message))
        .collect())
}

/// The signatures of all that led to the image that are attached to it.
async fn find(remote: &Remote, manifests: &[Digest]) -> Result<Vec<Signature>> {
    let found = manifests.iter().map(|digest| attached(remote, digest));
    let found = try_join_all(found).await?;
    Ok(found.into_iter().flatten().collect())
}

/// The signatures at the tag that cosign uses for this manifest.
async fn attached(remote: &Remote, digest: &Digest) -> Result<Vec<Signature>> {
    let Some(tag) = tag_of(digest) else {
        return Ok(Vec::new());
    };
    let manifest = match remote.attachment(&tag).await {
        Ok(fetched) => fetched.bytes,
        Err(Error::NotInRegistry { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let what = format!("the signatures of {digest}");
    let mut payloads: HashMap<Digest, String> = HashMap::new();
    let mut signatures = Vec::new();
    for (digest, signature) in listed(&what, &manifest)? {
        // Several signatures are often of the same bytes.
        let payload = match payloads.entry(digest) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(free) => free.insert(payload(remote, &what, digest).await?).clone(),
        };
        signatures.push(Signature { payload, signature });
    }
    Ok(signatures)
}

/// What was signed.
async fn payload(remote: &Remote, what: &str, digest: Digest) -> Result<String> {
    let bytes = remote.small_blob(what, digest).await?;
    if bytes.len() as u64 > MAX_PAYLOAD {
        return Err(too_large(what));
    }
    // Other bytes than text are no signature of an image.
    Ok(String::from_utf8(bytes).unwrap_or_default())
}

/// What a manifest of signatures names: the digest of what was signed, and the signature.
pub(crate) fn listed(what: &str, manifest: &[u8]) -> Result<Vec<(Digest, String)>> {
    let manifest: Attachment =
        serde_json::from_slice(manifest).map_err(|error| Error::invalid(what, error))?;
    let mut found = Vec::new();
    for layer in manifest.layers {
        let signature = layer.annotations.unwrap_or_default().signature;
        let Some(signature) = signature.filter(|_| layer.descriptor.media_type == SIGNATURE) else {
            continue;
        };
        if found.len() == MAX_SIGNATURES {
            return Err(Error::too_large(
                what,
                format!("{MAX_SIGNATURES} signatures"),
            ));
        }
        if layer.descriptor.size > MAX_PAYLOAD || signature.len() > MAX_SIGNATURE {
            return Err(too_large(what));
        }
        let digest = layer.descriptor.digest.parse();
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
        format!("{MAX_PAYLOAD} bytes, and {MAX_SIGNATURE} of the signature itself"),
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
