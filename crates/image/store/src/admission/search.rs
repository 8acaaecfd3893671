//! Searches for signatures in all places in parallel.
//!
//! Signatures of cosign are at a tag made from the manifest's digest ([`signatures`]), or refer to the manifest as
//! bundles ([`bundles`]). GPG signatures are in a store beside the registry ([`lookaside`]).

use std::pin::Pin;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::future::{BoxFuture, Either, MaybeDone, join_all, select, try_join_all};

use super::request::Request;
use super::settings::Settings;
use super::{attestations, bundles, signatures};
use crate::blocking::blocking;
use crate::evidence::{Complete, Evidence};
use crate::lookaside::{self, Base, Stores};
use crate::policy::{Needs, SIGSTORE_SIGNED};
use crate::registry::Remote;
use crate::{Digest, Error, Reference, Result, Verdict};

/// Timeout of the search for signatures that the policy does not require.
const PATIENCE: Duration = Duration::from_secs(5);

/// A search that is running or finished.
pub(crate) type Early<'a> = MaybeDone<BoxFuture<'a, Found>>;

/// The signatures that were found for an image.
#[derive(Default)]
pub(crate) struct Found {
    pub(super) evidence: Evidence,
    /// The error if attached signatures may be missing.
    missed: Option<Error>,
    /// The kinds of signatures for which all places were searched.
    pub(super) complete: Complete,
}

/// How to treat signatures that the policy does not require.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Others {
    /// They are kept if they can be fetched quickly.
    Keep,
    Leave,
}

/// Returns the kinds of signatures that the policy requires.
pub(super) fn needs(request: &Request) -> Needs {
    let policy = request.policy.as_ref();
    policy.map_or_else(Needs::default, |policy| policy.needs(&request.reference))
}

/// Returns whether the policy requires any signatures.
pub(crate) fn needs_signatures(request: &Request) -> bool {
    needs(request).any()
}

/// Searches for signatures attached to the named index or manifest, while it is still being resolved.
pub(crate) async fn early(
    settings: &Settings,
    remote: &Remote,
    request: &Request,
    top: Digest,
) -> Found {
    if settings.policies.is_empty() {
        return Found::default();
    }
    match stores(settings).await {
        Ok(stores) if stores.without_attachments(&request.reference).is_none() => {
            find(remote, &[top], needs(request)).await
        }
        _ => Found::default(),
    }
}

/// Runs both futures until the first one is done.
pub(crate) async fn beside<T>(first: impl Future<Output = T>, second: &mut Early<'_>) -> T {
    match select(Box::pin(first), second).await {
        Either::Left((done, _)) => done,
        Either::Right(((), first)) => first.await,
    }
}

/// Finds the signatures of all manifests and indexes of the image. A search for the last of `manifests`, which the
/// name refers to, may already be running.
pub(super) async fn gather(
    settings: &Settings,
    remote: &Remote,
    request: &Request,
    manifests: &[Digest],
    others: Others,
    early: Option<&mut Early<'_>>,
) -> Result<Found> {
    let (needs, name) = (needs(request), &request.reference);
    let (stores, is_told) = match stores(settings).await {
        Err(error) if needs.any() => return Err(error),
        Err(error) => {
            tracing::debug!(%error, "cannot read the configuration of the signature stores");
            (Stores::default(), false)
        }
        Ok(stores) => (stores, true),
    };
    let without_attached = stores.without_attachments(name);
    if let Some(file) = without_attached.filter(|_| needs.attached) {
        return Err(Error::Configuration {
            path: file.display().to_string(),
            reason: format!(
                "it sets \"use-sigstore-attachments: false\" for {name}, but the policy requires \
                 \"sigstoreSigned\"; remove one of them"
            ),
        });
    }
    let attached = async {
        Ok(match without_attached {
            None => attached(remote, manifests, needs, early).await,
            Some(_) => Found::default(),
        })
    };
    let messages = async {
        match stores.base(name) {
            Some(base) => messages(remote, base, manifests).await,
            None => Ok(Vec::new()),
        }
    };
    let (attached, messages) = tokio::try_join!(
        Box::pin(wait(name, needs.attached, others, attached)),
        Box::pin(wait(name, needs.messages, others, messages)),
    )?;
    let is_attached_there = is_told && attached.is_some();
    let mut found = attached.unwrap_or_default();
    let is_complete = is_attached_there && found.missed.is_none();
    found.complete = Complete {
        attached: is_complete,
        attestations: is_complete && needs.attestations,
        messages: is_told && messages.is_some(),
    };
    if let Some(error) = found.missed.as_ref().filter(|_| !needs.attached) {
        tracing::debug!(image = %name, %error, "cannot fetch signatures");
    }
    found.evidence.manifests = manifests.to_vec();
    found.evidence.messages = messages.unwrap_or_default();
    Ok(found)
}

/// Waits for signatures: without limit if the policy requires them, otherwise until a timeout. Returns `None` if
/// optional ones are unavailable.
async fn wait<T>(
    name: &Reference,
    needed: bool,
    others: Others,
    found: impl Future<Output = Result<T>>,
) -> Result<Option<T>> {
    if needed {
        return found.await.map(Some);
    }
    if others == Others::Leave {
        return Ok(None);
    }
    Ok(match tokio::time::timeout(PATIENCE, found).await {
        Ok(Ok(found)) => Some(found),
        Ok(Err(error)) => {
            tracing::debug!(image = %name, %error, "cannot fetch signatures");
            None
        }
        Err(_) => {
            tracing::debug!(image = %name, "fetching signatures timed out");
            None
        }
    })
}

/// Reads the current configuration of signature stores.
async fn stores(settings: &Settings) -> Result<Stores> {
    match settings.signature_stores.clone() {
        Some(dir) => blocking(move || Stores::read(&dir)).await,
        None => Ok(Stores::default()),
    }
}

/// Fetches the signed messages of all manifests and indexes of the image.
async fn messages(remote: &Remote, base: &Base, manifests: &[Digest]) -> Result<Vec<String>> {
    let found = manifests.iter();
    let found = found.map(|digest| lookaside::find(remote, base, digest));
    let found = try_join_all(found).await?.into_iter().flatten();
    Ok(found
        .map(|message| BASE64_STANDARD.encode(message))
        .collect())
}

/// Finds what is attached to all manifests and indexes of the image.
async fn attached(
    remote: &Remote,
    manifests: &[Digest],
    needs: Needs,
    early: Option<&mut Early<'_>>,
) -> Found {
    let Some(early) = early else {
        return find(remote, manifests, needs).await;
    };
    let (_, others) = manifests.split_last().unzip();
    let others = find(remote, others.unwrap_or_default(), needs);
    let ((), mut found) = tokio::join!(&mut *early, others);
    if let Some(first) = Pin::new(early).take_output() {
        found.add(first);
    }
    found
}

/// Finds what is attached to each of the manifests, and what is at their tags.
async fn find(remote: &Remote, manifests: &[Digest], needs: Needs) -> Found {
    let at_tags = manifests
        .iter()
        .map(|digest| signatures::at_tag(remote, digest));
    let attached = manifests
        .iter()
        .map(|digest| bundles::attached(remote, digest));
    // Saves a request if no attestations are required.
    let said = manifests.iter().filter(|_| needs.attestations);
    let said = said.map(|digest| attestations::at_tag(remote, digest));
    let (at_tags, attached, said) =
        tokio::join!(join_all(at_tags), join_all(attached), join_all(said));
    let mut found = Found::default();
    for signatures in at_tags {
        match signatures {
            Ok(signatures) => found.evidence.signatures.extend(signatures),
            Err(error) => found.missed = Some(error),
        }
    }
    for attached in attached {
        match attached {
            Ok((bundles, signatures)) => {
                found.evidence.bundles.extend(bundles);
                found.evidence.signatures.extend(signatures);
            }
            Err(error) => {
                found.missed.get_or_insert(error);
            }
        }
    }
    for attestations in said {
        match attestations {
            Ok(attestations) => found.evidence.attestations.extend(attestations),
            Err(error) => {
                found.missed.get_or_insert(error);
            }
        }
    }
    found
}

impl Found {
    /// Adds the result of another search.
    fn add(&mut self, other: Self) {
        self.evidence.signatures.extend(other.evidence.signatures);
        self.evidence.bundles.extend(other.evidence.bundles);
        let attestations = other.evidence.attestations;
        self.evidence.attestations.extend(attestations);
        self.missed = self.missed.take().or(other.missed);
    }

    /// Returns an error instead of a refusal if no signature was found because the search failed. Otherwise adds the
    /// search error to the reason.
    pub(super) fn decides(&mut self, mut verdict: Verdict) -> Result<Verdict> {
        let Some(error) = self.missed.take().filter(|_| !verdict.is_allowed()) else {
            return Ok(verdict);
        };
        let found = &self.evidence;
        let has_none = found.signatures.is_empty()
            && found.bundles.is_empty()
            && found.attestations.is_empty();
        for one in &mut verdict.requirements {
            if one.fulfilled || one.kind != SIGSTORE_SIGNED {
                continue;
            }
            if has_none {
                return Err(error);
            }
            one.reason.push_str("; more signatures may exist, but: ");
            one.reason.push_str(&error.to_string());
        }
        Ok(verdict)
    }
}
