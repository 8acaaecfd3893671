//! Matching of credentials file keys to images.

use std::borrow::Cow;

/// Docker Hub, as in image names. It has several host names.
const HUB: &str = "docker.io";

/// Returns host and port of an address, which may have a scheme and a path.
pub fn host_of(address: &str) -> String {
    let bare = without_scheme(address);
    bare.split('/').next().unwrap_or_default().to_lowercase()
}

/// Reports whether two hosts are the same registry.
pub fn same_registry(a: &str, b: &str) -> bool {
    canonical(a) == canonical(b)
}

/// Splits the name of an image or a repository into host and path, as docker does.
pub fn split_name(name: &str) -> (&str, Cow<'_, str>) {
    match name.split_once('/') {
        Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => {
            (host, Cow::Borrowed(path))
        }
        Some(_) => (HUB, Cow::Borrowed(name)),
        None => (HUB, Cow::Owned(format!("library/{name}"))),
    }
}

/// Returns the server name of a host in a helper's store.
pub(crate) fn server_of(host: &str) -> &str {
    if same_registry(host, HUB) {
        // `docker login` stores it under this name.
        "https://index.docker.io/v1/"
    } else {
        host
    }
}

fn canonical(host: &str) -> &str {
    match host {
        "index.docker.io" | "registry-1.docker.io" => HUB,
        host => host.strip_suffix(":443").unwrap_or(host),
    }
}

fn without_scheme(address: &str) -> &str {
    address
        .strip_prefix("https://")
        .or_else(|| address.strip_prefix("http://"))
        .unwrap_or(address)
}

/// A pattern for the images to which credentials apply: `*.example.org:5000/team`. Each part of the host may have a
/// `*`. Greater patterns are tried first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pattern(String);

/// The rule by which a pattern's path matches an image's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paths {
    /// Complete names: `team` does not match `teams/app`.
    ByName,
    /// Prefixes, as in the kubelet: `team` also matches `teams/app`.
    ByStart,
}

impl Pattern {
    /// Parses a key of docker's file: a host, a host and a path, or a URL. `https://a.example/v1/` matches all images
    /// of that host, because the path of an API version is not a repository's.
    pub fn of_key(key: &str) -> Self {
        let (host, path) = halves(without_scheme(key));
        let path = match path.split_once('/').unwrap_or((path, "")) {
            ("v1" | "v2", rest) => rest,
            _ => path,
        };
        Self::of(host, path)
    }

    /// Parses a pattern without a scheme.
    pub fn plain(text: &str) -> Self {
        let (host, path) = halves(text);
        Self::of(host, path)
    }

    fn of(host: &str, path: &str) -> Self {
        let host = host.to_lowercase();
        match path.trim_end_matches('/') {
            "" => Self(host),
            path => Self(format!("{host}/{path}")),
        }
    }

    /// Reports whether the pattern matches a path of a host.
    pub fn is_for(&self, host: &str, path: &str, paths: Paths) -> bool {
        let (own_host, own_path) = halves(&self.0);
        let rest = path.strip_prefix(own_path);
        let in_path = match paths {
            Paths::ByStart => rest.is_some(),
            Paths::ByName => rest.is_some_and(|rest| {
                own_path.is_empty() || rest.is_empty() || rest.starts_with('/')
            }),
        };
        in_path && has_host(own_host, &host.to_lowercase())
    }

    /// Returns how specific the pattern is. A greater value means fewer matching images.
    pub(crate) fn weight(&self) -> usize {
        self.0.len()
    }
}

/// Compares hosts: they must have the same number of parts, and equal ports.
fn has_host(pattern: &str, host: &str) -> bool {
    let (pattern, pattern_port) = split_port(canonical(pattern));
    let (host, port) = split_port(canonical(host));
    let (wanted, parts): (Vec<_>, Vec<_>) =
        (pattern.split('.').collect(), host.split('.').collect());
    pattern_port == port
        && wanted.len() == parts.len()
        && wanted
            .iter()
            .zip(parts)
            .all(|(glob, part)| is_like(glob, part))
}

fn is_like(glob: &str, text: &str) -> bool {
    match glob.split_once('*') {
        None => glob == text,
        Some((head, tail)) => text.strip_prefix(head).is_some_and(|rest| {
            (0..=rest.len()).any(|at| rest.is_char_boundary(at) && is_like(tail, &rest[at..]))
        }),
    }
}

fn split_port(host: &str) -> (&str, &str) {
    host.rsplit_once(':').unwrap_or((host, ""))
}

fn halves(text: &str) -> (&str, &str) {
    text.split_once('/').unwrap_or((text, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_match_hosts_paths_and_patterns() {
        let hub = "registry-1.docker.io";
        for (key, host, path, matches) in [
            ("https://index.docker.io/v1/", hub, "library/x", true),
            ("docker.io", "index.docker.io", "library/x", true),
            ("a.example", "a.example", "x", true),
            ("A.example", "a.Example", "x", true),
            ("a.example:443", "a.example", "x", true),
            ("a.example:5000", "a.example", "x", false),
            ("a.example/team", "a.example", "team/x", true),
            ("a.example/team", "a.example", "teams/x", false),
            ("a.example/team/", "a.example", "team", true),
            ("https://a.example/v1/team/", "a.example", "team/x", true),
            ("https://a.example/v2/team/", "a.example", "x", false),
            ("*.example", "a.example", "x", true),
            ("*.example", "b.a.example", "x", false),
            ("*.example:5000", "a.example:5000", "x", true),
            ("a.*", "a.example:5000", "x", false),
            ("reg-*.a.io", "reg-1.a.io", "x", true),
            ("r*g-*.a.io", "reg-1.a.io", "x", true),
            ("b.example", "a.example", "x", false),
        ] {
            let is_for = Pattern::of_key(key).is_for(host, path, Paths::ByName);
            assert_eq!(is_for, matches, "{key} {host} {path}");
        }
    }

    #[test]
    fn the_kubelet_s_patterns_are_for_paths_that_begin_alike() {
        let pattern = Pattern::plain("a.example/v1/team");
        assert!(pattern.is_for("a.example", "v1/teams/x:1", Paths::ByStart));
        assert!(!pattern.is_for("a.example", "team/x:1", Paths::ByStart));
    }

    #[test]
    fn names_without_a_host_are_docker_hub_s() {
        for (name, host, path) in [
            ("busybox:1", "docker.io", "library/busybox:1"),
            ("team/app", "docker.io", "team/app"),
            ("docker.io/team/app", "docker.io", "team/app"),
            ("localhost/app", "localhost", "app"),
            ("r:5000/app", "r:5000", "app"),
        ] {
            assert_eq!(split_name(name), (host, Cow::Borrowed(path)), "{name}");
        }
    }
}
