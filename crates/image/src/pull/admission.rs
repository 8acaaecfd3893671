//! Whether a pull may go on: the policy's say, before a layer is fetched, and the signatures that
//! it is said by.
//!
//! Signatures are where cosign puts them: at a tag made of the manifest's digest ([`signatures`]), or attached to it
//! as bundles ([`bundles`]). Those that are made with GPG are in a store beside the registry ([`lookaside`]).

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::future::{BoxFuture, Either, MaybeDone, join_all, select};

use super::task::{Context, Request};
use super::{bundles, signatures};
use crate::blocking::blocking;
use crate::lookaside::{self, Base, Stores};
use crate::policy::{Needs, Subject};
use crate::registry::Remote;
use crate::store::Evidence;
use crate::{Digest, Error, Result, Verdict};

/// How long signatures are waited for that nobody needs yet.
const PATIENCE: Duration = Duration::from_secs(5);

/// Says no where that needs neither a manifest nor a signature.
pub(super) async fn before(request: &Request) -> Result<()> {
    match &request.policy {
        Some(policy) if !policy.needs(&request.reference).any() => {
            judge(request, Found::nothing(&[])).await.map(drop)
        }
        _ => Ok(()),
    }
}

/// Looks for the signatures of what a name means, while it is still being found out what that leads to.
pub(super) async fn early(
    context: &Context,
    remote: &Remote,
    request: &Request,
    top: Digest,
) -> Found {
    if context.config.policies.is_empty() {
        return Found::nothing(&[]);
    }
    find(context, remote, request, &[top], Others::Keep).await
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
        let others = others.unwrap_or_default();
        let others = find(context, remote, request, others, Others::Keep);
        let ((), mut found) = tokio::join!(&mut *early, others);
        if let Some(first) = Pin::new(early).take_output() {
            found.add(first);
        }
        found
    };
    if needs(request).any() {
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
    context: &Context,
    remote: &Remote,
    request: &Request,
    manifests: Vec<Digest>,
) -> Result<Option<Verdict>> {
    let Some(policy) = &request.policy else {
        return Ok(None);
    };
    let mut found = if needs(request).any() {
        Box::pin(find(context, remote, request, &manifests, Others::Leave)).await
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
    /// What is wrong about the places where they are looked for.
    wrong: Option<Error>,
}

impl Found {
    fn nothing(manifests: &[Digest]) -> Self {
        Self {
            evidence: Evidence {
                manifests: manifests.to_vec(),
                ..Evidence::default()
            },
            missed: None,
            wrong: None,
        }
    }

    /// Adds what was found elsewhere.
    fn add(&mut self, other: Self) {
        self.evidence.manifests.extend(other.evidence.manifests);
        self.evidence.signatures.extend(other.evidence.signatures);
        self.evidence.bundles.extend(other.evidence.bundles);
        self.evidence.messages.extend(other.evidence.messages);
        self.wrong = self.wrong.take().or(other.wrong);
        self.missed = self.missed.take().or(other.missed);
    }

    /// A refusal is none where all that could have been found is where it can't be had; else it tells of that.
    /// Nor is anything decided while what says where to look is wrong.
    fn decides(&mut self, mut verdict: Verdict) -> Result<Verdict> {
        if let Some(error) = self.wrong.take() {
            return Err(error);
        }
        let Some(error) = self.missed.take().filter(|_| !verdict.is_allowed()) else {
            return Ok(verdict);
        };
        let Evidence {
            signatures,
            bundles,
            messages,
            ..
        } = &self.evidence;
        if signatures.is_empty() && bundles.is_empty() && messages.is_empty() {
            return Err(error);
        }
        for broken in verdict.requirements.iter_mut().filter(|one| !one.fulfilled) {
            broken.reason.push_str("; there may be more, but: ");
            broken.reason.push_str(&error.to_string());
        }
        Ok(verdict)
    }
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

/// The signatures of all that led to the image, wherever they are: all places are asked side by side.
async fn find(
    context: &Context,
    remote: &Remote,
    request: &Request,
    manifests: &[Digest],
    others: Others,
) -> Found {
    let (needs, name) = (needs(request), &request.reference);
    let mut found = Found::nothing(manifests);
    let stores = stores(context).await.unwrap_or_else(|error| {
        if needs.any() {
            found.wrong = Some(error);
        } else {
            tracing::debug!(%error, "where signatures are can't be told");
        }
        Stores::default()
    });
    let without_attached = stores.without_attachments(name);
    if let Some(file) = without_attached.filter(|_| needs.attached) {
        found.wrong = Some(Error::Configuration {
            path: file.display().to_string(),
            reason: format!(
                "it says \"use-sigstore-attachments: false\" of {name}, whose policy asks for \
                 \"sigstoreSigned\": remove one of them"
            ),
        });
    }
    if found.wrong.is_some() {
        return found;
    }
    let attached = async {
        match without_attached {
            None => attached(remote, manifests).await,
            Some(_) => Found::nothing(&[]),
        }
    };
    let messages = async {
        match stores.base(name) {
            Some(base) => messages(remote, base, manifests).await,
            None => Found::nothing(&[]),
        }
    };
    let (attached, messages) = tokio::join!(
        wait(request, needs.attached, others, attached),
        wait(request, needs.messages, others, messages),
    );
    found.add(attached);
    found.add(messages);
    found
}

/// Waits for signatures as long as they are worth it.
async fn wait(
    request: &Request,
    needed: bool,
    others: Others,
    found: impl Future<Output = Found>,
) -> Found {
    if needed {
        return found.await;
    }
    if others == Others::Leave {
        return Found::nothing(&[]);
    }
    let image = &request.reference;
    let Ok(mut found) = tokio::time::timeout(PATIENCE, found).await else {
        tracing::debug!(%image, "signatures come too slowly");
        return Found::nothing(&[]);
    };
    if let Some(error) = found.missed.take() {
        tracing::debug!(%image, %error, "signatures can't be had");
    }
    found
}

/// Where signatures are beside registries, as it is said now.
async fn stores(context: &Context) -> Result<Stores> {
    match context.config.signature_stores.clone() {
        Some(dir) => blocking(move || Stores::read(&dir)).await,
        None => Ok(Stores::default()),
    }
}

/// The messages signed with GPG.
async fn messages(remote: &Remote, base: &Base, manifests: &[Digest]) -> Found {
    let mut found = Found::nothing(&[]);
    let messages = manifests.iter();
    let messages = messages.map(|digest| lookaside::find(remote, base, digest));
    for messages in join_all(messages).await {
        match messages {
            Ok(messages) => {
                let messages = messages.iter().map(|it| BASE64_STANDARD.encode(it));
                found.evidence.messages.extend(messages);
            }
            Err(error) => found.missed = Some(error),
        }
    }
    found
}

/// What is attached to the image in its registry.
async fn attached(remote: &Remote, manifests: &[Digest]) -> Found {
    let at_tags = manifests
        .iter()
        .map(|digest| signatures::at_tag(remote, digest));
    let attached = manifests
        .iter()
        .map(|digest| bundles::attached(remote, digest));
    let (at_tags, attached) = tokio::join!(join_all(at_tags), join_all(attached));
    let mut found = Found::nothing(&[]);
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
