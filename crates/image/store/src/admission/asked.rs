//! Resolves a pull request into full names, credentials and the current policy.

use std::collections::VecDeque;

use super::request::{PullRequest, Request};
use super::settings::Settings;
use crate::blocking::blocking;
use crate::decryption::KeysOf;
use crate::registries::Rule;
use crate::registry::{Credentials, Keyring};
use crate::{DEFAULT_DOMAIN, Error, KeyFiles, PolicyFor, Reference, Result};

/// The requests that a pull request resolves to. A short name that is searched at several registries gives several.
pub(crate) struct Asked {
    /// The requested name.
    name: String,
    rule: Rule,
    requests: VecDeque<Request>,
    /// Whether other requests may succeed if one fails.
    are_many: bool,
    reasons: Vec<String>,
    last: Option<Error>,
}

impl Asked {
    /// Returns the next request to try.
    pub(crate) fn next(&mut self) -> Option<Request> {
        self.requests.pop_front()
    }

    /// Returns whether the name has the same meaning everywhere, independent of this node's configuration.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.rule, Rule::Full | Rule::DockerHub)
    }

    /// Records the failure of a request. Returns the error if trying other requests is pointless.
    pub(crate) fn note(&mut self, error: Error) -> Result<()> {
        if !self.are_many || error.is_our_own() {
            return Err(error);
        }
        tracing::debug!(name = self.name, %error, "cannot pull a short name from one registry; trying the next");
        self.reasons.push(orlop_text::with_causes(&error));
        self.last = Some(error);
        Ok(())
    }

    /// Returns the error if all requests failed.
    pub(crate) fn failure(self) -> Error {
        Error::Searched {
            rule: match self.rule {
                Rule::Search(place) | Rule::Alias(place) => place.to_string(),
                Rule::Full | Rule::DockerHub => String::new(),
            },
            reasons: self.reasons.join("; "),
            last: Box::new(
                self.last
                    .unwrap_or_else(|| Error::NotFound(self.name.clone())),
            ),
            name: self.name,
        }
    }
}

/// Resolves a pull request with the current configuration.
pub(crate) async fn asked(settings: &Settings, request: PullRequest) -> Result<Asked> {
    let policy = request.policy.read(&settings.policies).await?;
    let whose_keys = keys_of(&settings.keys, &request.policy).await?;
    let (registries, keys) = (
        settings.registry.registries.clone(),
        settings.registry.namespace_credentials.clone(),
    );
    let namespace = request.policy.namespace().to_owned();
    let name = request.reference.clone();
    let needs_files = registries.path().is_some() || keys.dir.is_some();
    let resolve = move || {
        let candidates = registries.read()?.candidates(&name)?;
        // The credential files use the name as it was requested.
        let files = keys.files(&namespace, &name.parse()?)?;
        Ok((candidates, files))
    };
    let (candidates, files) = if needs_files {
        blocking(resolve).await?
    } else {
        resolve()?
    };
    let keyring = Keyring {
        given: request.auth.filter(|auth| *auth != Credentials::default()),
        files,
    };
    // Credentials without a server address are only for the registry that the short name has by default.
    let is_short = matches!(candidates.rule, Rule::Search(_) | Rule::Alias(_));
    let keyring_for = |reference: &Reference| {
        let mut keyring = keyring.clone();
        let is_elsewhere = is_short && reference.repository().domain() != DEFAULT_DOMAIN;
        keyring.given = keyring
            .given
            .filter(|given| !is_elsewhere || !given.server_address.is_empty());
        keyring
    };
    let names = candidates.names.into_iter();
    let requests: VecDeque<Request> = names
        .map(|reference| Request {
            keyring: keyring_for(&reference),
            reference,
            policy: policy.clone(),
            keys: whose_keys.clone(),
            handler: request.handler.clone(),
            wait: request.wait,
        })
        .collect();
    Ok(Asked {
        are_many: requests.len() > 1,
        requests,
        rule: candidates.rule,
        name: request.reference,
        reasons: Vec::new(),
        last: None,
    })
}

/// Returns the keys that the policy's namespace may use.
pub(crate) async fn keys_of(files: &KeyFiles, whom: &PolicyFor) -> Result<KeysOf> {
    if files.is_empty() {
        return Ok(KeysOf::Node);
    }
    let (files, whom) = (files.clone(), whom.clone());
    blocking(move || files.of(&whom)).await
}
