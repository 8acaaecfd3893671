//! Image references, normalized in the same way as Docker.

use std::fmt;
use std::str::FromStr;

use crate::{Digest, Error};

/// The registry that short names belong to.
pub const DEFAULT_DOMAIN: &str = "docker.io";
const LEGACY_DEFAULT_DOMAIN: &str = "index.docker.io";
const OFFICIAL_PREFIX: &str = "library/";
const DEFAULT_TAG: &str = "latest";

/// Length limits of the distribution specification.
const MAX_NAME: usize = 255;
const MAX_TAG: usize = 128;

/// A repository: the registry's domain and the path in it, e.g. `docker.io` and
/// `library/busybox`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Repository {
    domain: String,
    path: String,
}

impl Repository {
    /// Returns the registry's domain with its port, if any.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// Returns the path below the domain.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Parses a name without tag and digest, in any form that Docker accepts.
    pub(crate) fn parse(name: &str) -> Result<Self, &'static str> {
        parse_repository(name)
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.domain, self.path)
    }
}

/// The part of a reference that selects an image in its repository.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Selector {
    /// The image that the tag currently points to.
    Tag(String),
    /// Exactly the manifest or index with this digest.
    Digest(Digest),
}

/// A fully normalised image reference: `busybox` is `docker.io/library/busybox:latest`.
///
/// A reference with both a tag and a digest means the digest; the tag is dropped.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    repository: Repository,
    selector: Selector,
}

impl Reference {
    /// Creates a reference from its parts.
    pub fn new(repository: Repository, selector: Selector) -> Self {
        Self {
            repository,
            selector,
        }
    }

    /// Returns the repository.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// Returns the tag or digest.
    pub fn selector(&self) -> &Selector {
        &self.selector
    }

    /// Returns the tag or digest as written in a registry's URL.
    pub fn selector_text(&self) -> String {
        match &self.selector {
            Selector::Tag(tag) => tag.clone(),
            Selector::Digest(digest) => digest.to_string(),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.selector {
            Selector::Tag(tag) => write!(f, "{}:{tag}", self.repository),
            Selector::Digest(digest) => write!(f, "{}@{digest}", self.repository),
        }
    }
}

impl FromStr for Reference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text).map_err(|reason| Error::InvalidReference {
            reference: text.chars().take(300).collect(),
            reason: reason.to_owned(),
        })
    }
}

/// A name as written, with a tag, a digest, both or neither.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) repository: Repository,
    pub(crate) tag: Option<String>,
    pub(crate) digest: Option<Digest>,
}

impl Named {
    /// Parses a name in any form that Docker accepts.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        parse_parts(text)
    }

    /// Returns the name of a reference.
    pub(crate) fn of(reference: &Reference) -> Self {
        let (tag, digest) = match &reference.selector {
            Selector::Tag(tag) => (Some(tag.clone()), None),
            Selector::Digest(digest) => (None, Some(*digest)),
        };
        Self {
            repository: reference.repository.clone(),
            tag,
            digest,
        }
    }

    /// Returns whether the name has neither tag nor digest.
    pub(crate) fn is_name_only(&self) -> bool {
        self.tag.is_none() && self.digest.is_none()
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

fn parse(text: &str) -> Result<Reference, &'static str> {
    let named = parse_parts(text)?;
    let selector = match (named.digest, named.tag) {
        (Some(digest), _) => Selector::Digest(digest),
        (None, tag) => Selector::Tag(tag.unwrap_or_else(|| DEFAULT_TAG.to_owned())),
    };
    Ok(Reference {
        repository: named.repository,
        selector,
    })
}

fn parse_parts(text: &str) -> Result<Named, &'static str> {
    if text.is_empty() {
        return Err("it is empty");
    }
    if !text.is_ascii() {
        return Err("only ASCII characters are allowed");
    }
    let (rest, digest) = match text.split_once('@') {
        Some((rest, digest)) => {
            let digest = digest
                .parse()
                .map_err(|_| "the text after '@' is neither a sha256 nor a sha512 digest")?;
            (rest, Some(digest))
        }
        None => (text, None),
    };
    // A colon after the last slash starts a tag; any other belongs to a port.
    let (name, tag) = match rest.rfind(':') {
        Some(colon) if !rest[colon..].contains('/') => (&rest[..colon], Some(&rest[colon + 1..])),
        _ => (rest, None),
    };
    if let Some(tag) = tag {
        check_tag(tag)?;
    }
    if digest.is_none() && tag.is_none() && Digest::from_hex(name).is_ok() {
        return Err("64 or 128 hexadecimal digits are an image id, not a name");
    }
    Ok(Named {
        repository: parse_repository(name)?,
        tag: tag.map(str::to_owned),
        digest,
    })
}

/// Returns whether a name has no registry: `busybox:1`, `team/app`.
pub(crate) fn is_short(name: &str) -> bool {
    split_domain(name).is_none()
}

/// Splits off the domain. A first component is a domain only if it looks like one; otherwise it is a user.
fn split_domain(name: &str) -> Option<(&str, &str)> {
    let (first, rest) = name.split_once('/')?;
    let is_domain = first.contains(['.', ':'])
        || first == "localhost"
        || first.bytes().any(|b| b.is_ascii_uppercase());
    is_domain.then_some((first, rest))
}

fn parse_repository(name: &str) -> Result<Repository, &'static str> {
    let (domain, path) = match split_domain(name) {
        Some((domain, rest)) => (domain, rest.to_owned()),
        None => (DEFAULT_DOMAIN, name.to_owned()),
    };
    check_domain(domain)?;
    let is_hub = |name: &str| domain.eq_ignore_ascii_case(name);
    let domain = if is_hub(LEGACY_DEFAULT_DOMAIN) || is_hub(DEFAULT_DOMAIN) {
        DEFAULT_DOMAIN
    } else {
        domain
    };
    let path = if domain == DEFAULT_DOMAIN && !path.contains('/') {
        format!("{OFFICIAL_PREFIX}{path}")
    } else {
        path
    };
    check_path(&path)?;
    if domain.len() + 1 + path.len() > MAX_NAME {
        return Err("the name is longer than 255 characters");
    }
    Ok(Repository {
        domain: domain.to_owned(),
        path,
    })
}

pub(crate) fn check_domain(domain: &str) -> Result<(), &'static str> {
    let (host, port) = if let Some(rest) = domain.strip_prefix('[') {
        let (address, port) = rest
            .split_once(']')
            .ok_or("an IPv6 address has no closing ']'")?;
        if address.parse::<std::net::Ipv6Addr>().is_err() {
            return Err("the registry is not a valid IPv6 address");
        }
        (
            None,
            port.strip_prefix(':')
                .map_or_else(|| port.is_empty().then_some(None), |p| Some(Some(p))),
        )
    } else {
        match domain.split_once(':') {
            Some((host, port)) => (Some(host), Some(Some(port))),
            None => (Some(domain), Some(None)),
        }
    };
    if let Some(host) = host {
        let label_ok = |label: &str| {
            !label.is_empty()
                && label
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if !host.split('.').all(label_ok) {
            return Err("the registry's host name is not valid");
        }
        // A host that ends with a number is an IP address, which must be in canonical form.
        let last = host.rsplit('.').next().unwrap_or(host);
        let hex = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
        let is_number = last.bytes().all(|byte| byte.is_ascii_digit())
            || hex.is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let address = host.parse::<std::net::Ipv4Addr>();
        if is_number && !address.is_ok_and(|it| it.to_string() == host) {
            return Err("the registry's address is not valid");
        }
    }
    match port {
        None => Err("the registry's port is not valid"),
        // Ports must be in canonical form, because rules match by name.
        Some(Some(port)) if !is_port(port) => Err("the registry's port is not valid"),
        Some(_) => Ok(()),
    }
}

fn is_port(text: &str) -> bool {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    is_plain && text.parse::<u16>().is_ok()
}

pub(crate) fn check_path(path: &str) -> Result<(), &'static str> {
    for component in path.split('/') {
        if component.is_empty() {
            return Err("a path component of the name is empty");
        }
        if component.bytes().any(|b| b.is_ascii_uppercase()) {
            return Err("the repository name must be lower case");
        }
        if !component_ok(component) {
            return Err("the repository name has characters that are not allowed");
        }
    }
    Ok(())
}

/// Matches `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*` of the distribution specification.
fn component_ok(component: &str) -> bool {
    let alnum = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = component.as_bytes();
    let ends_ok =
        bytes.first().is_some_and(|b| alnum(*b)) && bytes.last().is_some_and(|b| alnum(*b));
    ends_ok
        && bytes
            .split(|b| alnum(*b))
            .all(|gap| matches!(gap, b"" | b"." | b"_" | b"__") || gap.iter().all(|b| *b == b'-'))
}

pub(crate) fn check_tag(tag: &str) -> Result<(), &'static str> {
    let first_ok = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let rest_ok = |b: u8| first_ok(b) || b == b'.' || b == b'-';
    if tag.is_empty() || tag.len() > MAX_TAG {
        return Err("the tag is empty or longer than 128 characters");
    }
    if !first_ok(tag.as_bytes()[0]) || !tag.bytes().all(rest_ok) {
        return Err("the tag has characters that are not allowed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const D: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn names_are_normalised_as_docker_does() {
        for (given, normal) in [
            ("busybox", "docker.io/library/busybox:latest"),
            ("busybox:1", "docker.io/library/busybox:1"),
            (
                "index.docker.io/busybox",
                "docker.io/library/busybox:latest",
            ),
            (
                "docker.io/library/busybox",
                "docker.io/library/busybox:latest",
            ),
            ("Docker.io/busybox", "docker.io/library/busybox:latest"),
            ("Index.Docker.io/a/b", "docker.io/a/b:latest"),
            ("user/app:v1.2-rc_3", "docker.io/user/app:v1.2-rc_3"),
            ("localhost/app", "localhost/app:latest"),
            ("localhost:5000/app", "localhost:5000/app:latest"),
            ("127.0.0.1:5000/a/b/c", "127.0.0.1:5000/a/b/c:latest"),
            ("[::1]:5000/app:x", "[::1]:5000/app:x"),
            ("registry.k8s.io/pause:3.9", "registry.k8s.io/pause:3.9"),
            ("a--b/c__d.e", "docker.io/a--b/c__d.e:latest"),
        ] {
            assert_eq!(
                given.parse::<Reference>().unwrap().to_string(),
                normal,
                "{given}"
            );
        }
    }

    #[test]
    fn a_digest_wins_over_a_tag() {
        for given in [format!("busybox@{D}"), format!("busybox:1@{D}")] {
            let reference: Reference = given.parse().unwrap();
            assert_eq!(
                reference.to_string(),
                format!("docker.io/library/busybox@{D}")
            );
        }
    }

    #[test]
    fn bad_references_are_refused_with_a_reason() {
        let long_tag = format!("a:{}", "x".repeat(129));
        let long_name = format!("{}/b", "a".repeat(300));
        let id = "a".repeat(64);
        for given in [
            "",
            ":",
            "@",
            "a:",
            "A",
            "a//b",
            "/a",
            "a/",
            "a..b",
            "a___b",
            "-a",
            "a-",
            "a b",
            "ä",
            "a@sha256:1",
            "a@md5:00",
            "a@sha512:1",
            "host:port/a",
            "host:70000/a",
            "a.b/",
            "a:-x",
            "a:x:y",
            "[::1/a",
            "[zz]/a",
            "-x.io/a",
            "a.io:5000",
            &long_tag,
            &long_name,
            &id,
        ] {
            let parsed = given.parse::<Reference>();
            // "a.io:5000" is a name with a tag; all others are invalid.
            if given == "a.io:5000" {
                assert_eq!(parsed.unwrap().to_string(), "docker.io/library/a.io:5000");
            } else {
                assert!(
                    matches!(parsed, Err(Error::InvalidReference { .. })),
                    "{given:?}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in "\\PC{0,80}") {
            let _ = text.parse::<Reference>();
        }

        #[test]
        fn normal_form_is_a_fixed_point(text in "[a-z0-9./:@_-]{1,40}") {
            if let Ok(reference) = text.parse::<Reference>() {
                let again: Reference = reference.to_string().parse().unwrap();
                prop_assert_eq!(reference, again);
            }
        }
    }
}
