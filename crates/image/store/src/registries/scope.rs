//! The image names that an entry applies to, and the locations that replace them.

use std::fmt;

use crate::reference::{check_domain, check_path, check_tag};
use crate::{Digest, Repository, Selector};

/// A location of images: a host, a path on a host, or a single image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Location {
    host: String,
    /// Empty for a whole host.
    path: String,
    /// `:TAG` or `@DIGEST` for a single image, otherwise empty.
    selector: String,
}

/// The image names that an entry applies to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Prefix {
    /// The names at a location.
    At(Location),
    /// The names of all hosts with this suffix, which starts with a dot.
    Below(String),
}

/// The part of an image name's path after a prefix.
pub(crate) type Rest<'n> = &'n str;

impl Location {
    /// Parses `HOST[:PORT][/PATH][:TAG][@DIGEST]`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.contains("://") {
            return Err(format!(
                "{text:?} has a scheme; specify only the host, and set `insecure = true` if it \
                 does not use TLS"
            ));
        }
        let text = text.trim_end_matches('/');
        if text.is_empty() {
            return Err("it is empty".to_owned());
        }
        if text.contains('*') {
            return Err(format!(
                "{text:?} has a `*`, which is allowed only at the start of a prefix, as in \
                 \"*.example.com\""
            ));
        }
        let wrong = |reason: &str| format!("{text:?}: {reason}");
        let (host, path) = text.split_once('/').unwrap_or((text, ""));
        check_domain(host).map_err(wrong)?;
        let (path, digest) = match path.split_once('@') {
            Some((path, digest)) => (path, Some(digest)),
            None => (path, None),
        };
        let (path, tag) = match path.rsplit_once(':') {
            Some((path, tag)) => (path, Some(tag)),
            None => (path, None),
        };
        let selector = match (tag, digest) {
            (Some(_), Some(_)) => return Err(wrong("it has both a tag and a digest")),
            (Some(tag), None) => {
                check_tag(tag).map_err(wrong)?;
                format!(":{tag}")
            }
            (None, Some(digest)) => {
                let digest = digest.parse::<Digest>();
                format!("@{}", digest.map_err(|error| wrong(&error.to_string()))?)
            }
            (None, None) => String::new(),
        };
        if !path.is_empty() || !selector.is_empty() {
            check_path(path).map_err(wrong)?;
        }
        Ok(Self {
            host: host.to_ascii_lowercase(),
            path: path.to_owned(),
            selector,
        })
    }

    /// Returns `:TAG` or `@DIGEST` for a single image, otherwise an empty text.
    pub(crate) fn selector(&self) -> &str {
        &self.selector
    }

    /// Returns whether its host can start an image name: one without a dot or port looks like a path component.
    pub(crate) fn is_a_host(&self) -> bool {
        self.host.contains(['.', ':']) || self.host == "localhost"
    }

    /// Returns the repository at this location with the rest of a name appended.
    pub(crate) fn join(&self, rest: Rest<'_>) -> Result<Repository, String> {
        let parts = [&self.host, &self.path, rest];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let name = parts.join("/");
        if parts.len() < 2 {
            return Err(format!(
                "it turns the name into {name:?}, which is only a host"
            ));
        }
        Repository::parse(&name).map_err(|reason| {
            format!("it turns the name into {name:?}, which is not valid: {reason}")
        })
    }
}

impl Prefix {
    /// Parses a location, or `*.DOMAIN` for the hosts of a domain.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let Some(domain) = text.trim_end_matches('/').strip_prefix("*.") else {
            return Location::parse(text).map(Self::At);
        };
        if domain.contains(['*', '/', '@']) {
            return Err(format!(
                "{text:?}: a `*` must cover whole host names, as in \"*.example.com\""
            ));
        }
        check_domain(domain).map_err(|reason| format!("{text:?}: {reason}"))?;
        Ok(Self::Below(format!(".{}", domain.to_ascii_lowercase())))
    }

    /// Returns the part of a repository's name after the prefix, if the prefix matches. The prefix of a single image
    /// matches only its tag or digest.
    pub(crate) fn rest_of<'n>(
        &self,
        repository: &'n Repository,
        selector: Option<&Selector>,
    ) -> Option<Rest<'n>> {
        let host = canonical(repository.domain());
        match self {
            Self::Below(domain) => {
                let is_below = host.len() > domain.len() && host.ends_with(canonical_of(domain));
                is_below.then_some(repository.path())
            }
            Self::At(location) => {
                if canonical(&location.host) != host {
                    return None;
                }
                let rest = repository.path().strip_prefix(&location.path)?;
                let rest = match rest.strip_prefix('/') {
                    Some(rest) => rest,
                    None if location.path.is_empty() || rest.is_empty() => rest,
                    None => return None,
                };
                let is_so = location.selector.is_empty()
                    || (rest.is_empty()
                        && selector.is_some_and(|it| location.selector == text(it)));
                is_so.then_some(rest)
            }
        }
    }

    /// Returns how specific it is. Of two matching prefixes, the longer one wins; of two equally long ones, the one
    /// without `*`.
    pub(crate) fn weight(&self) -> (usize, bool) {
        match self {
            Self::Below(domain) => (domain.len() + 1, false),
            Self::At(location) => (location.to_string().len(), true),
        }
    }

    /// Returns its location, if it is not a wildcard.
    pub(crate) fn location(&self) -> Option<&Location> {
        match self {
            Self::At(location) => Some(location),
            Self::Below(_) => None,
        }
    }
}

/// Normalizes a host: lower case, without the default port of HTTPS.
fn canonical(host: &str) -> String {
    canonical_of(host).to_ascii_lowercase()
}

fn canonical_of(host: &str) -> &str {
    host.strip_suffix(":443").unwrap_or(host)
}

fn text(selector: &Selector) -> String {
    match selector {
        Selector::Tag(tag) => format!(":{tag}"),
        Selector::Digest(digest) => format!("@{digest}"),
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.host)?;
        if !self.path.is_empty() {
            write!(f, "/{}", self.path)?;
        }
        f.write_str(&self.selector)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(location) => location.fmt(f),
            Self::Below(domain) => write!(f, "*{domain}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reference;

    fn rest(prefix: &str, name: &str) -> Option<String> {
        let name: Reference = name.parse().unwrap();
        let prefix = Prefix::parse(prefix).unwrap();
        prefix
            .rest_of(name.repository(), Some(name.selector()))
            .map(str::to_owned)
    }

    #[test]
    fn prefixes_are_for_whole_parts_of_names() {
        let digest = Digest::of(b"x");
        let by_digest = format!("a.example/b@{digest}");
        for (prefix, name, expected) in [
            ("a.example", "a.example/b/c:1", Some("b/c")),
            ("a.example/", "a.example/b/c:1", Some("b/c")),
            ("A.example", "a.Example/b", Some("b")),
            ("a.example", "a.example:443/b", Some("b")),
            ("a.example:443", "a.example/b", Some("b")),
            ("a.example", "a.example:5000/b", None),
            ("a.example:5000", "a.example:5000/b", Some("b")),
            ("a.example:5000", "a.example/b", None),
            ("a.example/b", "a.example/b/c", Some("c")),
            ("a.example/b", "a.example/b:2", Some("")),
            ("a.example/b", "a.example/bc", None),
            ("a.example/b/c", "a.example/b", None),
            ("a.example/b:1", "a.example/b:1", Some("")),
            ("a.example/b:1", "a.example/b:2", None),
            ("a.example/b:1", "a.example/b/c:1", None),
            (&by_digest, &by_digest, Some("")),
            ("example", "a.example/b", None),
            ("*.example", "a.example/b/c", Some("b/c")),
            ("*.example", "x.a.Example/b", Some("b")),
            ("*.a.example", "a.example/b", None),
            ("*.a.example", "xa.example/b", None),
            ("*.example:5000", "a.example:5000/b", Some("b")),
            ("*.example", "a.example:5000/b", None),
            ("*.example", "a.example:443/b", Some("b")),
            ("docker.io", "busybox", Some("library/busybox")),
            ("docker.io/library", "busybox", Some("busybox")),
            ("[::1]:5000", "[::1]:5000/b", Some("b")),
        ] {
            assert_eq!(rest(prefix, name).as_deref(), expected, "{prefix} {name}");
        }
    }

    #[test]
    fn what_is_no_prefix_is_told_so() {
        for (text, reason) in [
            ("", "empty"),
            ("/", "empty"),
            ("https://a.example", "scheme"),
            ("a.*.example", "`*`"),
            ("*.a.example/b", "whole host names"),
            ("*.", "host name is not valid"),
            ("a.example/B", "lower case"),
            ("a.example//b", "empty"),
            ("a.example/b:", "tag"),
            ("a.example/b@sha256:1", "a.example/b@sha256:1"),
            ("a.example:port", "port"),
        ] {
            let error = Prefix::parse(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn a_location_takes_the_place_of_its_prefix() {
        for (location, rest, expected) in [
            ("b.example", "x/y", "b.example/x/y"),
            ("b.example/p/q", "x", "b.example/p/q/x"),
            ("b.example/p", "", "b.example/p"),
            ("docker.io", "busybox", "docker.io/library/busybox"),
        ] {
            let joined = Location::parse(location).unwrap().join(rest).unwrap();
            assert_eq!(joined.to_string(), expected);
        }
        let host_alone = Location::parse("b.example").unwrap().join("");
        assert!(host_alone.unwrap_err().contains("only a host"));
        let long = "x".repeat(250);
        let error = Location::parse("b.example").unwrap().join(&long);
        assert!(error.unwrap_err().contains("255"));
    }
}
