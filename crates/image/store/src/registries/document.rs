//! Parses one `registries.conf`, or one file of its `.d` directory.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::Spanned;

use super::alias::{Alias, Mode, is_alias};
use super::scope::{Location, Prefix};
use crate::place::Lines;
use crate::{Error, Place, Result};

/// Name in the list of credential helpers that stands for the credential files.
pub(crate) const FILES: &str = "containers-auth.json";

/// The settings in one file.
#[derive(Debug, Default)]
pub(crate) struct Document {
    pub(crate) entries: Vec<Entry>,
    /// Registries that are searched for short names.
    pub(crate) search: Option<(Vec<String>, Place)>,
    pub(crate) mode: Option<(Mode, Place)>,
    /// Aliases by short name; `None` removes an alias of an earlier file.
    pub(crate) aliases: BTreeMap<String, Option<Alias>>,
    pub(crate) helpers: Option<Vec<String>>,
}

/// A table `[[registry]]`.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) prefix: Prefix,
    /// Position of `blocked = true`.
    pub(crate) blocked: Option<Place>,
    /// Mirrors, in the order in which they are asked.
    pub(crate) mirrors: Vec<Endpoint>,
    /// The registry itself, which is asked last.
    pub(crate) own: Endpoint,
}

/// The location of a registry or mirror.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    /// Location that replaces the prefix; `None` leaves the name unchanged.
    pub(crate) location: Option<Location>,
    /// Whether it may have an invalid certificate or no TLS.
    pub(crate) insecure: bool,
    pub(crate) pulls: Pulls,
    pub(crate) place: Place,
}

/// The images that are pulled from a mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pulls {
    All,
    ByDigest,
    ByTag,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct File {
    #[serde(default)]
    registry: Vec<Spanned<Table>>,
    unqualified_search_registries: Option<Spanned<Vec<Spanned<String>>>>,
    short_name_mode: Option<Spanned<String>>,
    #[serde(default)]
    aliases: BTreeMap<Spanned<String>, Spanned<String>>,
    credential_helpers: Option<Vec<Spanned<String>>>,
    /// Setting for an additional layer store, which is not supported.
    #[serde(rename = "additional-layer-store-auth-helper")]
    _layer_store: Option<IgnoredAny>,
    /// Table of format version 1.
    registries: Option<Spanned<IgnoredAny>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Table {
    prefix: Option<Spanned<String>>,
    location: Option<Spanned<String>>,
    #[serde(default)]
    insecure: bool,
    blocked: Option<Spanned<bool>>,
    mirror_by_digest_only: Option<Spanned<bool>>,
    #[serde(default)]
    mirror: Vec<Spanned<Mirror>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Mirror {
    location: Spanned<String>,
    #[serde(default)]
    insecure: bool,
    pull_from_mirror: Option<Spanned<String>>,
}

impl Document {
    /// Parses the text of `path`.
    pub(crate) fn parse(path: &Path, text: &str) -> Result<Self> {
        let reader = Reader(Lines::of(path, text));
        let file = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            reader.wrong(at, error.message())
        })?;
        reader.document(file)
    }
}

struct Reader(Lines);

impl Reader {
    fn document(&self, file: File) -> Result<Document> {
        if let Some(old) = file.registries {
            return Err(self.wrong(
                old.span().start,
                "version 1 of the format is not supported; write a `[[registry]]` with its \
                 `location` for each entry of [registries.insecure] (`insecure = true`) and \
                 [registries.block] (`blocked = true`), and the list of [registries.search] as \
                 `unqualified-search-registries`",
            ));
        }
        let mut document = Document::default();
        let mut known = HashMap::new();
        for table in file.registry {
            let entry = self.entry(&table)?;
            let prefix = entry.prefix.to_string();
            if let Some(line) = known.insert(prefix.clone(), entry.own.place.line) {
                let reason = format!(
                    "the prefix {prefix:?} already has an entry in line {line}; merge the two"
                );
                return Err(self.wrong(table.span().start, &reason));
            }
            document.entries.push(entry);
        }
        if let Some(search) = file.unqualified_search_registries {
            let place = self.place(search.span().start);
            let hosts = search.into_inner().into_iter();
            let hosts = hosts.map(|host| self.search_host(&host));
            document.search = Some((hosts.collect::<Result<_>>()?, place));
        }
        if let Some(mode) = file.short_name_mode {
            let at = mode.span().start;
            let read = Mode::parse(mode.get_ref()).ok_or_else(|| {
                let reason = format!(
                    "{:?} is not a short name mode; use enforcing, permissive or disabled",
                    mode.get_ref()
                );
                self.wrong(at, &reason)
            })?;
            document.mode = Some((read, self.place(at)));
        }
        for (name, value) in file.aliases {
            let at = name.span().start;
            let name = name.into_inner();
            if !is_alias(&name) {
                let reason = format!(
                    "{name:?} is not a valid alias; use a name without a registry, tag or digest"
                );
                return Err(self.wrong(at, &reason));
            }
            let alias = match value.get_ref().as_str() {
                "" => None,
                text => Some(Alias {
                    target: self.alias_target(text, value.span().start)?,
                    place: self.place(at),
                }),
            };
            document.aliases.insert(name, alias);
        }
        if let Some(helpers) = file.credential_helpers {
            let helpers = helpers.into_iter().map(|helper| {
                let name = helper.get_ref();
                if name.is_empty() || name.contains('/') {
                    let reason = format!("{name:?} is not the name of a credential helper");
                    return Err(self.wrong(helper.span().start, &reason));
                }
                Ok(helper.into_inner())
            });
            document.helpers = Some(helpers.collect::<Result<_>>()?);
        }
        Ok(document)
    }

    fn entry(&self, table: &Spanned<Table>) -> Result<Entry> {
        let (at, table) = (table.span().start, table.get_ref());
        let Some(named) = table.prefix.as_ref().or(table.location.as_ref()) else {
            return Err(self.wrong(at, "this [[registry]] has neither a prefix nor a location"));
        };
        let prefix = Prefix::parse(named.get_ref());
        let prefix = prefix.map_err(|reason| self.wrong(named.span().start, &reason))?;
        let location = match (&table.location, prefix.location()) {
            (Some(location), _) => Some(self.location(location, &prefix)?),
            (None, _) => None,
        };
        let digest_only = table.mirror_by_digest_only.as_ref();
        let digest_only = digest_only.is_some_and(|only| *only.get_ref());
        let mirrors = table.mirror.iter();
        let mirrors = mirrors.map(|mirror| self.mirror(mirror, &prefix, digest_only));
        let blocked = table.blocked.as_ref().filter(|blocked| *blocked.get_ref());
        Ok(Entry {
            blocked: blocked.map(|blocked| self.place(blocked.span().start)),
            mirrors: mirrors.collect::<Result<_>>()?,
            own: Endpoint {
                location,
                insecure: table.insecure,
                pulls: Pulls::All,
                place: self.place(at),
            },
            prefix,
        })
    }

    fn mirror(
        &self,
        mirror: &Spanned<Mirror>,
        prefix: &Prefix,
        digest_only: bool,
    ) -> Result<Endpoint> {
        let (at, mirror) = (mirror.span().start, mirror.get_ref());
        let pulls = match &mirror.pull_from_mirror {
            None if digest_only => Pulls::ByDigest,
            None => Pulls::All,
            Some(word) if digest_only => {
                return Err(self.wrong(
                    word.span().start,
                    "`pull-from-mirror` and the registry's `mirror-by-digest-only` contradict each other; \
                     keep one of them",
                ));
            }
            Some(word) => match word.get_ref().as_str() {
                "all" => Pulls::All,
                "digest-only" => Pulls::ByDigest,
                "tag-only" => Pulls::ByTag,
                other => {
                    let reason = format!(
                        "{other:?} is not a value of `pull-from-mirror`; use all, digest-only or tag-only"
                    );
                    return Err(self.wrong(word.span().start, &reason));
                }
            },
        };
        Ok(Endpoint {
            location: Some(self.location(&mirror.location, prefix)?),
            insecure: mirror.insecure,
            pulls,
            place: self.place(at),
        })
    }

    /// Parses the location that replaces a prefix. It must not change a tag or digest, because the policy is applied
    /// to the requested name.
    fn location(&self, text: &Spanned<String>, prefix: &Prefix) -> Result<Location> {
        let wrong = |reason: &str| self.wrong(text.span().start, reason);
        let location = Location::parse(text.get_ref()).map_err(|reason| wrong(&reason))?;
        if !location.is_a_host() {
            let reason = format!(
                "{:?} does not begin with a host; a host has a dot or a port, or is localhost",
                text.get_ref()
            );
            return Err(wrong(&reason));
        }
        let wanted = prefix.location().map_or("", Location::selector);
        if location.selector() != wanted {
            return Err(wrong(
                "a location must have the same tag or digest as its prefix",
            ));
        }
        Ok(location)
    }

    fn search_host(&self, host: &Spanned<String>) -> Result<String> {
        let text = host.get_ref().trim_end_matches('/');
        let read = Location::parse(text).ok().filter(Location::is_a_host);
        let is_host = read.is_some_and(|read| read.join("x").is_ok()) && !text.contains('/');
        if is_host {
            return Ok(text.to_owned());
        }
        let reason = format!(
            "{:?} is not a valid registry; use a host name, with a port if needed",
            host.get_ref()
        );
        Err(self.wrong(host.span().start, &reason))
    }

    fn alias_target(&self, text: &str, at: usize) -> Result<crate::Repository> {
        let location = Location::parse(text).map_err(|reason| self.wrong(at, &reason))?;
        let read = location.join("");
        match read {
            Ok(target) if location.is_a_host() && location.selector().is_empty() => Ok(target),
            _ => {
                let reason = format!(
                    "{text:?} is not a valid alias target; specify a registry and a repository, \
                     without a tag or digest"
                );
                Err(self.wrong(at, &reason))
            }
        }
    }

    fn place(&self, at: usize) -> Place {
        self.0.place(at)
    }

    fn wrong(&self, at: usize, reason: &str) -> Error {
        Error::Configuration {
            path: self.place(at).to_string(),
            reason: reason.to_owned(),
        }
    }
}
