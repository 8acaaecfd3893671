//! What a pull asks for, in our own words: full names, credentials, the policy as it is now.

use std::collections::VecDeque;

use crate::blocking::blocking;
use crate::decryption::KeysOf;
use crate::pull::Request;
use crate::reference::is_short;
use crate::registries::Rule;
use crate::registry::{Credentials, Keyring};
use crate::{
    Config, DEFAULT_DOMAIN, Digest, Error, Image, Images, PolicyFor, PullRequest, Reference,
    RegistriesFile, Result,
};

/// The requests that one becomes: more than one where a short name is looked for at several registries.
pub(crate) struct Asked {
    /// As it was asked for.
    name: String,
    rule: Rule,
    requests: VecDeque<Request>,
    /// There are others that may be served where one is not.
    are_many: bool,
    reasons: Vec<String>,
    last: Option<Error>,
}

impl Asked {
    /// The next one to try.
    pub(crate) fn next(&mut self) -> Option<Request> {
        self.requests.pop_front()
    }

    /// Whether its name is understood by everybody as it is here.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.rule, Rule::Full | Rule::DockerHub)
    }

    /// Notes that one was not served. The error comes back where trying the others makes no sense.
    pub(crate) fn note(&mut self, error: Error) -> Result<()> {
        if !self.are_many || error.is_our_own() {
            return Err(error);
        }
        tracing::debug!(name = self.name, %error, "cannot pull a short name from one registry; trying the next");
        self.reasons.push(orlop_text::with_causes(&error));
        self.last = Some(error);
        Ok(())
    }

    /// Why none was served.
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

/// What a request means now.
pub(crate) async fn asked(config: &Config, request: PullRequest) -> Result<Asked> {
    let policy = request.policy.read(config).await?;
    let whose_keys = keys_of(config, &request.policy).await?;
    let (registries, keys) = (
        config.registries.clone(),
        config.namespace_credentials.clone(),
    );
    let namespace = request.policy.namespace().to_owned();
    let name = request.reference.clone();
    let needs_files = registries.path().is_some() || keys.dir.is_some();
    let resolve = move || {
        let candidates = registries.read()?.candidates(&name)?;
        // Who writes these files knows the name as it is asked for.
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
    // Who does not say which registry they are for means the one that the name has by itself.
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

/// Whose keys are tried.
pub(crate) async fn keys_of(config: &Config, whom: &PolicyFor) -> Result<KeysOf> {
    let files = &config.keys;
    if files.is_empty() {
        return Ok(KeysOf::Node);
    }
    let (files, whom) = (files.clone(), whom.clone());
    blocking(move || files.of(&whom)).await
}

impl Images {
    /// The full names that an image may have here by which `text` asks for it; none if it is no name, or
    /// one that can't be pulled. Looks at small files where a short name depends on them.
    pub async fn names_here(&self, text: &str) -> Result<Vec<Reference>> {
        let file = &self.context().config.registries;
        if !needs_file(file, text) {
            return names_here(file, text);
        }
        let (file, text) = (file.clone(), text.to_owned());
        blocking(move || names_here(&file, &text)).await
    }

    /// The name that a request means which asks for an image that is here by `text`; none where that is an id.
    pub async fn name_meant(&self, text: &str, image: &Image) -> Option<Reference> {
        let stands_for = self.names_here(text).await.unwrap_or_default();
        let names = image.repo_tags.iter().chain(&image.repo_digests);
        name_meant(text, stands_for, names.map(String::as_str), &image.id)
    }
}

/// The same, for those who have the file.
pub(crate) fn names_here(file: &RegistriesFile, text: &str) -> Result<Vec<Reference>> {
    if is_id(text) {
        return Ok(Vec::new());
    }
    if !needs_file(file, text) {
        return Ok(text.parse().into_iter().collect());
    }
    Ok(file.read()?.names_here(text))
}

/// Which name a request means that asks for an image by `text`, where the image has these names and this id. That may be
/// an id, and ids look like names: `sha256:0123…` would be one of docker.io. A short name is the full one that the image
/// has of those that it stands for, else the first of them.
pub(crate) fn name_meant<'n>(
    text: &str,
    stands_for: Vec<Reference>,
    names: impl Iterator<Item = &'n str> + Clone,
    id: &Digest,
) -> Option<Reference> {
    let parsed: Reference = text.parse().ok()?;
    let is_name = |name: &&Reference| {
        let full = name.to_string();
        names.clone().any(|name| name == full)
    };
    if let Some(name) = stands_for.iter().find(is_name) {
        return Some(name.clone());
    }
    // What can't be told is judged as if nothing were said of short names.
    let name = stands_for.into_iter().next().unwrap_or(parsed);
    let algorithms = ["sha256:", "sha512:"];
    let mut stripped = algorithms.iter().filter_map(|it| text.strip_prefix(it));
    let digits = stripped.next().unwrap_or(text);
    (!id.hex().starts_with(digits)).then_some(name)
}

/// Whether a text is a whole id.
pub(crate) fn is_id(text: &str) -> bool {
    text.parse::<Digest>().is_ok() || Digest::from_hex(text).is_ok()
}

/// Whether a file says what a name stands for.
pub(crate) fn needs_file(file: &RegistriesFile, text: &str) -> bool {
    file.path().is_some() && is_short(text)
}
