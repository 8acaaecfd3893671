//! Resolves names without a registry.

use super::alias::Mode;
use super::merged::Registries;
use crate::reference::is_short;
use crate::{Error, Place, Reference, Result};

/// The rule that resolved a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// The name contains its registry.
    Full,
    /// The name has no registry, and there is no `registries.conf`: it belongs to Docker Hub.
    DockerHub,
    /// The name is an alias.
    Alias(Place),
    /// Registries are searched for the name.
    Search(Place),
}

/// The full names that a name may refer to, in the order in which they are tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidates {
    /// At least one full name.
    pub(crate) names: Vec<Reference>,
    pub(crate) rule: Rule,
}

impl Registries {
    /// Resolves a name to its candidates.
    pub(crate) fn candidates(&self, text: &str) -> Result<Candidates> {
        // The text must be a valid name in any case.
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

    /// Returns the names that a stored image may have; empty if the name cannot be resolved.
    pub(crate) fn names_here(&self, text: &str) -> Vec<Reference> {
        let candidates = self.candidates(text);
        candidates.map_or_else(|_| Vec::new(), |candidates| candidates.names)
    }
}

/// Returns a name without its tag and digest.
fn bare(text: &str) -> &str {
    let text = text.split_once('@').map_or(text, |(name, _)| name);
    match text.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => text,
    }
}
