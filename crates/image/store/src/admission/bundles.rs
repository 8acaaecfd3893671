//! Sigstore bundles that refer to a manifest, where cosign stores signatures and attestations since version 3.

use futures_util::future::try_join_all;
use serde::Deserialize;

use super::signatures;
use crate::evidence::Signature;
use crate::manifest::RawDescriptor;
use crate::registry::{Referrer, Remote};
use crate::{Digest, Error, Result};

/// Prefix of the artifact types of bundles, without the version.
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle";
/// Artifact type of signatures that are not in bundles.
const SIGNATURES: &str = "application/vnd.dev.cosign.artifact.sig.v1+json";
/// Media type that some registries report for an artifact without configuration, regardless of its type.
const EMPTY: &str = "application/vnd.oci.empty.v1+json";
/// Annotation with the predicate type of a bundle.
const PREDICATE: &str = "dev.sigstore.bundle.predicateType";

/// Maximum number of fetched referrers per manifest.
const MAX_FETCHED: usize = 32;
/// Maximum size of a bundle. A signature has about six thousand bytes, an attestation may have many more.
const MAX_BUNDLE: u64 = 1 << 20;
/// Maximum number of signatures of one manifest.
const MAX_SIGNATURES: usize = 64;
/// Maximum size of all bundles and signatures of one manifest.
const MAX_TOGETHER: usize = 4 << 20;

/// Fetches the bundles (as JSON) and separate signatures that refer to a manifest.
pub(super) async fn attached(
    remote: &Remote,
    digest: &Digest,
) -> Result<(Vec<String>, Vec<Signature>)> {
    let mut found = remote.referrers(digest, is_wanted).await?;
    // Signatures first, so that other artifacts cannot crowd them out.
    found.sort_by_key(|one| !is_signature(one));
    if found.len() > MAX_FETCHED {
        let count = found.len();
        tracing::debug!(%digest, count, "too many artifacts are attached to an image; reading only the first ones");
        found.truncate(MAX_FETCHED);
    }
    let fetched = found.iter().map(|one| fetch(remote, digest, one));
    let things = try_join_all(fetched).await?;
    Ok(limited(things.into_iter().flatten()))
}

/// Returns bundles and signatures up to the limits.
fn limited(things: impl Iterator<Item = Attached>) -> (Vec<String>, Vec<Signature>) {
    let mut bundles = Vec::new();
    let mut signatures = Vec::new();
    let mut together = 0;
    for thing in things {
        match thing {
            Attached::Bundle(text) => {
                together += text.len();
                if together <= MAX_TOGETHER {
                    bundles.push(text);
                }
            }
            Attached::Signatures(some) => {
                for signature in some {
                    together += signature.bytes();
                    if together <= MAX_TOGETHER && signatures.len() < MAX_SIGNATURES {
                        signatures.push(signature);
                    }
                }
            }
        }
    }
    (bundles, signatures)
}

enum Attached {
    Bundle(String),
    Signatures(Vec<Signature>),
}

fn is_wanted(artifact_type: &str) -> bool {
    artifact_type.starts_with(BUNDLE) || [SIGNATURES, EMPTY, ""].contains(&artifact_type)
}

fn is_signature(referrer: &Referrer) -> bool {
    let predicate = referrer.annotations.get(PREDICATE);
    predicate.is_none_or(|kind| kind == orlop_sigstore::Statement::COSIGN_SIGN)
}

/// Fetches a referrer. Ignores one that is no bundle, too large or missing, because it could only have supported the
/// image.
async fn fetch(remote: &Remote, subject: &Digest, one: &Referrer) -> Result<Option<Attached>> {
    match read(remote, subject, &one.digest).await {
        Ok(thing) => Ok(thing),
        Err(
            error @ (Error::NotInRegistry { .. }
            | Error::InvalidImage { .. }
            | Error::TooLarge { .. }
            | Error::DigestMismatch { .. }),
        ) => {
            tracing::debug!(%subject, attached = %one.digest, %error, "ignoring an artifact that is attached to an image");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

async fn read(remote: &Remote, subject: &Digest, digest: &Digest) -> Result<Option<Attached>> {
    let what = format!("an artifact attached to {subject}");
    let fetched = remote.manifest(&digest.to_string(), Some(*digest)).await?;
    let Some(layer) = bundle_of(&what, &fetched.bytes)? else {
        let signatures = signatures::of_manifest(remote, subject, &fetched.bytes).await?;
        return Ok(Some(Attached::Signatures(signatures)));
    };
    let bytes = remote.small_blob(&what, layer).await?;
    if bytes.len() as u64 > MAX_BUNDLE {
        return Err(Error::too_large(what, format!("{MAX_BUNDLE} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|error| Error::invalid(what, error))?;
    Ok(Some(Attached::Bundle(text)))
}

/// Returns the digest of the bundle in a manifest, or `None` if the manifest is not of a bundle.
pub(crate) fn bundle_of(what: &str, manifest: &[u8]) -> Result<Option<Digest>> {
    let manifest: Manifest =
        serde_json::from_slice(manifest).map_err(|error| Error::invalid(what, error))?;
    let [layer] = &manifest.layers[..] else {
        return Ok(None);
    };
    if !layer.media_type.starts_with(BUNDLE) {
        return Ok(None);
    }
    if layer.size > MAX_BUNDLE {
        return Err(Error::too_large(what, format!("{MAX_BUNDLE} bytes")));
    }
    let digest = layer.digest.parse();
    digest
        .map(Some)
        .map_err(|error| Error::invalid(what, error))
}

#[derive(Deserialize)]
struct Manifest {
    layers: Vec<RawDescriptor>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_with_signatures_counts_as_they_do() {
        let beside = Some("x".repeat(32 << 10));
        let one = Signature {
            certificate: beside.clone(),
            chain: beside.clone(),
            log: beside,
            ..Signature::default()
        };
        let all = vec![one; MAX_SIGNATURES];
        let (_, signatures) = limited([Attached::Signatures(all)].into_iter());
        assert_eq!(signatures.len(), MAX_TOGETHER / (96 << 10));
    }
}
