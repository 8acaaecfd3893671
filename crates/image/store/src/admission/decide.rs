//! Whether a pull may go on: the policy's say, before a layer is fetched.

use std::sync::Arc;

use super::request::Request;
use super::search::{Early, Found, Others, gather, needs};
use super::settings::Settings;
use crate::blocking::blocking;
use crate::evidence::{Accepted, Findings};
use crate::policy::Subject;
use crate::registry::Remote;
use crate::{Digest, Result, Verdict};

/// Says no where that needs neither a manifest nor a signature.
pub(crate) async fn before(request: &Request) -> Result<()> {
    match &request.policy {
        Some(policy) if !policy.needs(&request.reference).any() => {
            judge(request, Found::default()).await.map(drop)
        }
        _ => Ok(()),
    }
}

/// Says no unless the signatures are as the policy wants them. Returns what is to be kept with
/// the image; nothing on a node without policies. Some have been looked for already.
pub(crate) async fn after(
    settings: &Settings,
    remote: &Remote,
    request: &Request,
    manifests: &[Digest],
    early: &mut Early<'_>,
) -> Result<Option<Findings>> {
    if settings.policies.is_empty() {
        return Ok(None);
    }
    // Another namespace, or the policy of tomorrow, may ask for those that this one does not need.
    let found = gather(
        settings,
        remote,
        request,
        manifests,
        Others::Keep,
        Some(early),
    );
    // It is large, and a pull is held by others.
    let found = Box::pin(found).await?;
    if needs(request).any() {
        return judge(request, found).await.map(Some);
    }
    Ok(Some(findings(request, found, Accepted::default())))
}

/// What the policy says, without refusing anything.
pub(super) async fn verdict(
    settings: &Settings,
    remote: &Remote,
    request: &Request,
    manifests: Vec<Digest>,
) -> Result<Option<Verdict>> {
    let Some(policy) = &request.policy else {
        return Ok(None);
    };
    let found = gather(settings, remote, request, &manifests, Others::Leave, None);
    let mut found = Box::pin(found).await?;
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

/// Refuses, or gives back what was found, of which what is accepted is first.
async fn judge(request: &Request, mut found: Found) -> Result<Findings> {
    let request = request.clone();
    blocking(move || {
        let Some(policy) = &request.policy else {
            return Ok(findings(&request, found, Accepted::default()));
        };
        let subject = Subject {
            name: Some(&request.reference),
            evidence: &found.evidence,
        };
        let verdict = policy.judge(subject)?;
        found.decides(verdict)?.into_result()?;
        let accepted = policy.sort(&request.reference, &mut found.evidence)?;
        Ok(findings(&request, found, accepted))
    })
    .await
}

fn findings(request: &Request, found: Found, accepted: Accepted) -> Findings {
    Findings {
        repository: request.reference.repository().to_string(),
        evidence: found.evidence,
        accepted,
        complete: found.complete,
    }
}
