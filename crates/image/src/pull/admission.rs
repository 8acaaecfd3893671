//! Whether a pull may go on: the policy's say, before a layer is fetched, and the signatures that
//! it is said by.
//!
//! Signatures are where cosign puts them: at a tag made of the manifest's digest ([`signatures`]), or attached to it
//! as bundles ([`bundles`]).

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, Either, MaybeDone, join_all, select};

use super::task::{Context, Request};
use super::{bundles, signatures};
use crate::blocking::blocking;
use crate::policy::Subject;
use crate::registry::Remote;
use crate::store::Evidence;
use crate::{Digest, Error, Result, Verdict};

/// How long signatures are waited for that nobody needs yet.
const PATIENCE: Duration = Duration::from_secs(5);

/// Says no where that needs neither a manifest nor a signature.
pub(super) async fn before(request: &Request) -> Result<()> {
    match &request.policy {
        Some(policy) if !policy.needs_signatures(&request.reference) => {
            judge(request, Found::nothing(&[])).await.map(drop)
        }
        _ => Ok(()),
    }
}

/// Looks for the signatures of what a name means, while it is still being found out what that leads to.
pub(super) async fn early(context: &Context, remote: &Remote, top: Digest) -> Found {
    if context.config.policies.is_empty() {
        return Found::nothing(&[]);
    }
    find(remote, &[top]).await
}

/// Does both, and is done when the first is.
pub(super) async fn beside<T>(first: impl Future<Output = T>, second: &mut Early<'_>) -> T {
    match select(Box::pin(first), second).await {
        Either::Left((done, _)) => done,
        Either::Right(((), first)) => first.await,
    }
}

/// A search that has begun, or is over.
pub(super) type Early<'a> = MaybeDone<BoxFuture<'a, Found>>;

/// Says no unless the signatures are as the policy wants them. Returns what is to be kept with
/// the image; nothing on a node without policies. Some have been looked for already.
pub(super) async fn after(
    context: &Context,
    remote: &Remote,
    request: &Request,
    manifests: &[Digest],
    early: &mut Early<'_>,
) -> Result<Option<Evidence>> {
    if context.config.policies.is_empty() {
        return Ok(None);
    }
    let search = async {
        // What the name means is the last.
        let (_, others) = manifests.split_last().unzip();
        let ((), mut found) = tokio::join!(&mut *early, find(remote, others.unwrap_or_default()));
        if let Some(first) = Pin::new(early).take_output() {
            found.add(first);
        }
        found
    };
    let needed = request
        .policy
        .as_ref()
        .is_some_and(|policy| policy.needs_signatures(&request.reference));
    if needed {
        let found = search.await;
        return judge(request, found).await.map(Some);
    }
    // Another namespace, or the policy of tomorrow, may ask for them.
    let found = tokio::time::timeout(PATIENCE, search).await;
    let found = found.unwrap_or_else(|_| {
        tracing::debug!(image = %request.reference, "signatures come too slowly");
        Found::nothing(manifests)
    });
    if let Some(error) = &found.missed {
        tracing::debug!(image = %request.reference, %error, "signatures can't be had");
    }
    Ok(Some(found.evidence))
}

/// What the policy says, without refusing anything.
pub(super) async fn verdict(
    remote: &Remote,
    request: &Request,
    manifests: Vec<Digest>,
) -> Result<Option<Verdict>> {
    let Some(policy) = &request.policy else {
        return Ok(None);
    };
    let mut found = if policy.needs_signatures(&request.reference) {
        find(remote, &manifests).await
    } else {
        Found::nothing(&manifests)
    };
    let (policy, name) = (Arc::clone(policy), request.reference.clone());
    let judged = blocking(move || {
        let subject = Subject {
            name: Some(&name),
            evidence: &found.evidence,
        };
        let verdict = policy.judge(subject)?;
        found.decides(verdict)
    });
    judged.await.map(Some)
}

/// Refuses, or gives the evidence back.
async fn judge(request: &Request, mut found: Found) -> Result<Evidence> {
    let (policy, name) = (request.policy.clone(), request.reference.clone());
    blocking(move || {
        let Some(policy) = policy else {
            return Ok(found.evidence);
        };
        let subject = Subject {
            name: Some(&name),
            evidence: &found.evidence,
        };
        let verdict = policy.judge(subject)?;
        found
            .decides(verdict)?
            .into_result()
            .map(|()| found.evidence)
    })
    .await
}

/// What was found of an image's signatures.
pub(super) struct Found {
    evidence: Evidence,
    /// Why there may be more somewhere.
    missed: Option<Error>,
}

impl Found {
    fn nothing(manifests: &[Digest]) -> Self {
        Self {
            evidence: Evidence {
                manifests: manifests.to_vec(),
                ..Evidence::default()
            },
            missed: None,
        }
    }

    /// Adds what was found elsewhere.
    fn add(&mut self, other: Self) {
        self.evidence.manifests.extend(other.evidence.manifests);
        self.evidence.signatures.extend(other.evidence.signatures);
        self.evidence.bundles.extend(other.evidence.bundles);
        self.missed = self.missed.take().or(other.missed);
    }

    /// A refusal is none where all that could have been found is where it can't be had; else it tells of that.
    fn decides(&mut self, mut verdict: Verdict) -> Result<Verdict> {
        let Some(error) = self.missed.take().filter(|_| !verdict.is_allowed()) else {
            return Ok(verdict);
        };
        if self.evidence.signatures.is_empty() && self.evidence.bundles.is_empty() {
            return Err(error);
        }
        for broken in verdict.requirements.iter_mut().filter(|one| !one.fulfilled) {
            broken.reason.push_str("; there may be more, but: ");
            broken.reason.push_str(&error.to_string());
        }
        Ok(verdict)
    }
}

/// The signatures of all that led to the image, wherever they are: all places are asked side by side.
async fn find(remote: &Remote, manifests: &[Digest]) -> Found {
    let at_tags = manifests
        .iter()
        .map(|digest| signatures::at_tag(remote, digest));
    let attached = manifests
        .iter()
        .map(|digest| bundles::attached(remote, digest));
    let (at_tags, attached) = tokio::join!(join_all(at_tags), join_all(attached));
    let mut found = Found::nothing(manifests);
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
    found
}
