//! Examines an image before another program pulls it.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::maybe_done;

use super::examined::{Examined, Leave, of};
use super::images::ForeignImages;
use crate::admission::{self, Asker, PullRequest, Request, asked};
use crate::blocking::blocking;
use crate::policy::Subject;
use crate::registry::next_number;
use crate::{Error, Platform, Result};

/// Timeout for findings that the policy does not require.
const PATIENCE: Duration = Duration::from_secs(10);

impl ForeignImages {
    /// Resolves a name for a platform and checks whether the policy allows the pull. A refusal is an error.
    pub async fn examine(&self, request: PullRequest, platform: &Platform) -> Result<Leave> {
        let settings = self.settings();
        let mut asked = asked(settings, request).await?;
        let is_plain = asked.is_plain();
        while let Some(request) = asked.next() {
            let asker = Asker {
                settings,
                transport: self.transport(),
                platform,
                here: None,
            };
            admission::refuse_early(&request).await?;
            let is_needed = admission::needs_signatures(&request);
            // Boxed because the future is large.
            let examining = Box::pin(examine(asker, request));
            let examined = if is_needed || !is_plain {
                examining.await
            } else {
                match tokio::time::timeout(PATIENCE, examining).await {
                    Err(_) => return Ok(Leave::AsNamed),
                    Ok(Err(error)) if is_others(&error) => {
                        tracing::debug!(%error, "cannot fetch optional signatures");
                        return Ok(Leave::AsNamed);
                    }
                    Ok(examined) => examined,
                }
            };
            match examined {
                Ok(examined) => return Ok(Leave::Of(Box::new(examined))),
                Err(error) => asked.note(error)?,
            }
        }
        Err(asked.failure())
    }
}

async fn examine(asker: Asker<'_>, request: Request) -> Result<Examined> {
    let (what, name) = (request.reference.to_string(), request.reference.clone());
    let (remote, named) = asker.resolve(&request, next_number()).await?;
    let top = named.0;
    let early = admission::early(asker.settings, &remote, &request, top);
    let mut early = maybe_done(early.boxed());
    let found = asker.find_manifest(&remote, &what, named);
    let found = Box::pin(admission::beside(found, &mut early));
    let (document, manifest, manifests) = found.await?;
    let found = admission::admitted(asker.settings, &remote, &request, &manifests, &mut early);
    let found = found.await?.unwrap_or_default();
    let of_index = of(&found, top).evidence;
    let policy = request.policy.clone();
    let judged = name.clone();
    let covers_index = blocking(move || {
        let Some(policy) = policy else {
            return Ok(true);
        };
        let subject = Subject {
            name: Some(&judged),
            evidence: &of_index,
        };
        Ok(policy.judge(subject)?.is_allowed())
    });
    Ok(Examined {
        covers_index: covers_index.await?,
        name: name.clone(),
        top,
        manifest: document.digest,
        config: manifest.config.digest,
        found,
    })
}

/// Returns whether the program that pulls may succeed where this node failed.
fn is_others(error: &Error) -> bool {
    matches!(
        error,
        Error::NotInRegistry { .. }
            | Error::Unauthenticated { .. }
            | Error::PermissionDenied { .. }
            | Error::RegistryUnavailable { .. }
            | Error::Protocol { .. }
            | Error::Unsupported(_)
            | Error::InvalidImage { .. }
            | Error::TooLarge { .. }
    )
}
