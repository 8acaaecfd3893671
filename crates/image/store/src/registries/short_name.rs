//! Names that say no registry, and what they stand for.

use super::alias::Mode;
use super::merged::Registries;
use crate::reference::is_short;
use crate::{Error, Place, Reference, Result};

/// Why a name became what it became.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// It says its registry.
    Full,
    /// It says none, and no `registries.conf` says what that means: it is Docker Hub's.
    DockerHub,
    /// It is an alias.
    Alias(Place),
    /// Registries are searched.
    Search(Place),
}

/// The full names that a name may stand for, to be tried in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidates {
    /// At least one.
    pub(crate) names: Vec<Reference>,
    pub(crate) rule: Rule,
}

impl Registries {
    /// What a name stands for.
    pub(crate) fn candidates(&self, text: &str) -> Result<Candidates> {
        // Whatever it becomes, it must be a name.
        let reference: Reference = text.parse()?;
        let alone = |rule| Candidates {
            names: vec![reference.clone()],
            rule,
        };
        if !is_short(text) {
            return Ok(alone(Rule::Full));
        }
        if !self.is_set {
            return Ok(alone(Rule::DockerHub));
        }
        if let Some(alias) = self.aliases.get(bare(text)) {
            let name = Reference::new(alias.target.clone(), reference.selector().clone());
            return Ok(Candidates {
                names: vec![name],
                rule: Rule::Alias(alias.place.clone()),
            });
        }
        let refuse = |reason: String| Error::ShortName {
            name: text.to_owned(),
            reason,
        };
        let (hosts, place) = match &self.search {
            Some((hosts, place)) if !hosts.is_empty() => (hosts, place),
            Some((_, place)) => {
                return Err(refuse(format!(
                    "it is not an alias, and `unqualified-search-registries` ({place}) is empty; \
                     specify the registry, as in \"docker.io/library/busybox\""
                )));
            }
            None => {
                return Err(refuse(
                    "it is not an alias, and images.registries_conf has no \
                     `unqualified-search-registries`; specify the registry, as in \
                     \"docker.io/library/busybox\""
                        .to_owned(),
                ));
            }
        };
        let mut names = Vec::new();
        for host in hosts {
            let name = format!("{host}/{text}").parse::<Reference>()?;
            if !names.contains(&name) {
                names.push(name);
            }
        }
        if let (Some((Mode::Enforcing, mode)), [_, _, ..]) = (&self.mode, &names[..]) {
            let list: Vec<String> = names.iter().map(ToString::to_string).collect();
            return Err(refuse(format!(
                "it can be {} ({place}), and `short-name-mode` ({mode}) does not allow trying them \
                 one after the other; specify the registry or define an alias",
                list.join(" or ")
            )));
        }
        Ok(Candidates {
            names,
            rule: Rule::Search(place.clone()),
        })
    }

    /// The names that an image of a name may have here; none if it can't be had by that.
    pub(crate) fn names_here(&self, text: &str) -> Vec<Reference> {
        let candidates = self.candidates(text);
        candidates.map_or_else(|_| Vec::new(), |candidates| candidates.names)
    }
}

/// A name without its tag and digest.
fn bare(text: &str) -> &str {
    let text = text.split_once('@').map_or(text, |(name, _)| name);
    match text.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => text,
    }
}
