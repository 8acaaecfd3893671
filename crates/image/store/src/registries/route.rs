//! Selects the registries and mirrors to ask for an image, in order.

use super::document::{Endpoint, Entry, Pulls};
use super::merged::Registries;
use crate::{Error, Place, Repository, Result, Selector};

/// The content that is requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asking {
    /// The image with a tag or digest.
    For(Selector),
    /// Parts of an image whose name is already resolved.
    Content,
}

/// A registry or mirror to ask.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// The repository's name at this location.
    pub(crate) repository: Repository,
    /// Whether it may have an invalid certificate or no TLS.
    pub(crate) insecure: bool,
    /// Whether it is a mirror instead of the registry itself.
    pub(crate) is_mirror: bool,
    pub(crate) pulls: Pulls,
    /// Position of the entry; `None` for a registry without one.
    pub(crate) place: Option<Place>,
}

impl Source {
    /// Returns whether it is asked for this content.
    pub(crate) fn serves(&self, asking: &Asking) -> bool {
        match (asking, self.pulls) {
            (Asking::Content, _) | (_, Pulls::All) => true,
            (Asking::For(Selector::Tag(_)), pulls) => pulls == Pulls::ByTag,
            (Asking::For(Selector::Digest(_)), pulls) => pulls == Pulls::ByDigest,
        }
    }
}

impl Registries {
    /// Returns the locations of a repository's images, mirrors first. Fails if the repository is blocked.
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

    /// Returns the most specific entry for a repository, and the part of the name after its prefix.
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
