//! Which places are asked for an image, in order.

use super::document::{Endpoint, Entry, Pulls};
use super::merged::Registries;
use crate::{Error, Place, Repository, Result, Selector};

/// By what an image is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asking {
    /// By a tag or a digest.
    For(Selector),
    /// For parts of images whose names were resolved before.
    Content,
}

/// A place to ask.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// What the repository is called there.
    pub(crate) repository: Repository,
    /// May be asked without TLS, and whatever its certificate.
    pub(crate) insecure: bool,
    /// Whether it stands beside the registry, not in its place.
    pub(crate) is_mirror: bool,
    pub(crate) pulls: Pulls,
    /// Where that is said; nowhere for a registry that no entry is for.
    pub(crate) place: Option<Place>,
}

impl Source {
    /// Whether it is asked.
    pub(crate) fn serves(&self, asking: &Asking) -> bool {
        match (asking, self.pulls) {
            (Asking::Content, _) | (_, Pulls::All) => true,
            (Asking::For(Selector::Tag(_)), pulls) => pulls == Pulls::ByTag,
            (Asking::For(Selector::Digest(_)), pulls) => pulls == Pulls::ByDigest,
        }
    }
}

impl Registries {
    /// The places that may have the images of a repository, mirrors first.
    pub(crate) fn sources(&self, repository: &Repository, asking: &Asking) -> Result<Vec<Source>> {
        let Some((entry, rest)) = self.entry(repository, asking) else {
            return Ok(vec![Source {
                repository: repository.clone(),
                insecure: false,
                is_mirror: false,
                pulls: Pulls::All,
                place: None,
            }]);
        };
        if let Some(place) = &entry.blocked {
            return Err(Error::Blocked {
                image: match asking {
                    Asking::For(Selector::Tag(tag)) => format!("{repository}:{tag}"),
                    Asking::For(Selector::Digest(digest)) => format!("{repository}@{digest}"),
                    Asking::Content => repository.to_string(),
                },
                place: place.to_string(),
            });
        }
        let source = |endpoint: &Endpoint, is_mirror| {
            let there = match &endpoint.location {
                None => Ok(repository.clone()),
                Some(location) => location.join(rest),
            };
            Ok(Source {
                repository: there.map_err(|reason| Error::Configuration {
                    path: endpoint.place.to_string(),
                    reason: format!("the location cannot be used for {repository}: {reason}"),
                })?,
                insecure: endpoint.insecure,
                is_mirror,
                pulls: endpoint.pulls,
                place: Some(endpoint.place.clone()),
            })
        };
        let mirrors = entry.mirrors.iter().map(|mirror| source(mirror, true));
        let own = std::iter::once_with(|| source(&entry.own, false));
        mirrors.chain(own).collect()
    }

    /// The entry that says the most of a name, and what of the name is behind its prefix.
    fn entry<'n>(&self, repository: &'n Repository, asking: &Asking) -> Option<(&Entry, &'n str)> {
        let selector = match asking {
            Asking::For(selector) => Some(selector),
            Asking::Content => None,
        };
        self.entries()
            .filter_map(|entry| Some((entry, entry.prefix.rest_of(repository, selector)?)))
            .max_by_key(|(entry, _)| entry.prefix.weight())
    }
}
