//! Applies the policy to a pull before any layer is fetched.

use std::sync::Arc;

use super::request::Request;
use super::search::{Early, Found, Others, gather, needs};
use super::settings::Settings;
use crate::blocking::blocking;
use crate::evidence::{Accepted, Findings};
use crate::policy::Subject;
use crate::registry::Remote;
use crate::{Digest, Result, Verdict};

/// Refuses the pull early if the policy needs neither a manifest nor a signature for that.
pub(crate) async fn before(request: &Request) -> Result<()> {
    match &request.policy {
        Some(policy) if !policy.needs(&request.reference).any() => {
            judge(request, Found::default()).await.map(drop)
        }
        _ => Ok(()),
    }
}

/// Refuses the pull unless its signatures satisfy the policy. Returns the findings to store with the image, or `None`
/// on a node without policies. `early` is a search that is already running.
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
    // Other namespaces or later policies may require signatures that this policy does not.
    let found = gather(
        settings,
        remote,
        request,
        manifests,
        Others::Keep,
        Some(early),
    );
    // Boxed because the future is large, and pulls contain it.
    let found = Box::pin(found).await?;
    if needs(request).any() {
        return judge(request, found).await.map(Some);
    }
    Ok(Some(findings(request, found, Accepted::default())))
}

/// Returns the policy's verdict without refusing the pull.
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

/// Refuses the pull, or returns the findings with the accepted ones first.
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
