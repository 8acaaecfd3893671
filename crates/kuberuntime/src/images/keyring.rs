use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use orlop_cri::v1::AuthConfig;
use serde::Deserialize;

use super::credential::{Credential, credential_hash};
use crate::image::SecretRecord;
use crate::manager::Secret;

/// The registry of images that name none.
const DEFAULT_REGISTRY: &str = "index.docker.io";
/// A file with credentials that is larger is none.
const MAX_FILE: u64 = 1 << 20;

/// Credentials by the registries that they are for.
#[derive(Clone, Default)]
pub(crate) struct Keyring {
    entries: Vec<(String, Credential)>,
}

#[derive(Deserialize)]
struct ConfigFile {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Entry {
    auth: String,
    username: String,
    password: String,
    email: String,
    identitytoken: String,
    registrytoken: String,
}

impl Keyring {
    /// The node's own: the first `config.json` and the first `.dockercfg` on the way. Blocks.
    pub(crate) fn of_node(first: &[PathBuf]) -> Self {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let mut dirs: Vec<PathBuf> = first.to_vec();
        dirs.extend(std::env::current_dir());
        let json: Vec<PathBuf> = dirs
            .iter()
            .cloned()
            .chain(home.iter().map(|home| home.join(".docker")))
            .chain([PathBuf::from("/.docker")])
            .map(|dir| dir.join("config.json"))
            .collect();
        let legacy = dirs
            .into_iter()
            .chain(home)
            .chain([PathBuf::from("/")])
            .map(|dir| dir.join(".dockercfg"));
        let mut keyring = Self::default();
        let read = |path: &PathBuf| match orlop_disk::read_file(path, MAX_FILE) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) {
                    tracing::warn!(path = %path.display(), %error, "no credentials are read from it");
                }
                None
            }
        };
        let from_json = json.iter().filter_map(read).find_map(|text| {
            let mut found = Self::default();
            found.add_config_json(&text).then_some(found)
        });
        let from_legacy = legacy
            .collect::<Vec<_>>()
            .iter()
            .filter_map(read)
            .find_map(|text| {
                let mut found = Self::default();
                found.add_dockercfg(&text).then_some(found)
            });
        // One of the two: the newer format wins.
        if let Some(found) = from_json.or(from_legacy) {
            keyring = found;
        }
        keyring
    }

    /// Takes the credentials of a pull secret in; `false` if it has none that can be read.
    pub(crate) fn add_secret(&mut self, namespace: &str, name: &str, secret: &Secret) -> bool {
        let of = |key: &str| secret.data.get(key).map(Vec::as_slice);
        let before = self.entries.len();
        let added = match secret.kind.as_str() {
            "kubernetes.io/dockerconfigjson" => {
                of(".dockerconfigjson").is_some_and(|text| self.add_config_json(text))
            }
            "kubernetes.io/dockercfg" => {
                of(".dockercfg").is_some_and(|text| self.add_dockercfg(text))
            }
            _ => false,
        };
        for (_, credential) in &mut self.entries[before..] {
            credential.secret = Some(SecretRecord {
                uid: secret.uid.clone(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                credential_hash: credential.hash.clone(),
            });
        }
        added
    }

    /// Adds credentials of the node.
    pub(crate) fn add(&mut self, registry: &str, auth: AuthConfig, email: &str) {
        let credential = Credential {
            hash: credential_hash(&auth, email),
            auth,
            secret: None,
        };
        self.entries.push((pattern_of(registry), credential));
    }

    /// What may be tried for an image, the most specific first.
    pub(crate) fn lookup(&self, image: &str) -> Vec<Credential> {
        let default = is_in_default_registry(image);
        let mut found: Vec<_> = self
            .entries
            .iter()
            .filter(|(pattern, _)| {
                matches(pattern, image) || (default && host_of(pattern) == DEFAULT_REGISTRY)
            })
            .collect();
        found.sort_by_key(|(pattern, _)| Reverse(pattern));
        found.into_iter().map(|(_, it)| it.clone()).collect()
    }

    fn add_config_json(&mut self, text: &[u8]) -> bool {
        let Ok(file) = serde_json::from_slice::<ConfigFile>(text) else {
            return false;
        };
        self.add_entries(file.auths)
    }

    fn add_dockercfg(&mut self, text: &[u8]) -> bool {
        let Ok(entries) = serde_json::from_slice(text) else {
            return false;
        };
        self.add_entries(entries)
    }

    fn add_entries(&mut self, entries: BTreeMap<String, Entry>) -> bool {
        let mut any = false;
        for (registry, entry) in entries {
            let mut auth = AuthConfig {
                username: entry.username,
                password: entry.password,
                identity_token: entry.identitytoken,
                registry_token: entry.registrytoken,
                ..AuthConfig::default()
            };
            let decoded = BASE64_STANDARD
                .decode(entry.auth.trim())
                .ok()
                .and_then(|bytes| String::from_utf8(bytes).ok());
            if let Some((user, password)) = decoded.as_deref().and_then(|t| t.split_once(':')) {
                user.clone_into(&mut auth.username);
                password
                    .trim_end_matches('\0')
                    .clone_into(&mut auth.password);
            }
            if auth != AuthConfig::default() {
                self.add(&registry, auth, &entry.email);
                any = true;
            }
        }
        any
    }
}

/// The images that an entry is for: `https://index.docker.io/v1/` is for all of that host.
fn pattern_of(registry: &str) -> String {
    let mut name = registry;
    for scheme in ["https://", "http://"] {
        name = name.strip_prefix(scheme).unwrap_or(name);
    }
    let (host, path) = name.split_once('/').unwrap_or((name, ""));
    // The path of a version of the API is no repository's.
    let path = match path.split_once('/') {
        Some(("v1" | "v2", rest)) => rest,
        None if matches!(path, "v1" | "v2") => "",
        _ => path,
    };
    match path.trim_end_matches('/') {
        "" => host.to_owned(),
        path => format!("{host}/{path}"),
    }
}

/// Whether a pattern (`*.example.org:5000/team`) is for an image. Each part of the host may have
/// a `*`; hosts have equally many parts, ports are equal, and the pattern's path leads.
pub(super) fn matches(pattern: &str, image: &str) -> bool {
    let (pattern_host, pattern_path) = pattern.split_once('/').unwrap_or((pattern, ""));
    let Some((host, path)) = image.split_once('/') else {
        return false;
    };
    let (pattern_name, pattern_port) = split_port(pattern_host);
    let (name, port) = split_port(host);
    if pattern_port != port {
        return false;
    }
    let (wanted, parts): (Vec<_>, Vec<_>) =
        (pattern_name.split('.').collect(), name.split('.').collect());
    wanted.len() == parts.len()
        && wanted
            .iter()
            .zip(&parts)
            .all(|(glob, part)| is_like(glob, part))
        && path.starts_with(pattern_path)
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

fn host_of(pattern: &str) -> &str {
    pattern.split('/').next().unwrap_or_default()
}

fn is_in_default_registry(image: &str) -> bool {
    match image.split_once('/') {
        None => true,
        Some((first, _)) => {
            first == "docker.io"
                || first == DEFAULT_REGISTRY
                || !(first.contains(['.', ':']) || first == "localhost")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyring(json: &str) -> Keyring {
        let mut keyring = Keyring::default();
        assert!(keyring.add_config_json(json.as_bytes()));
        keyring
    }

    #[test]
    fn the_right_key_for_each_image() {
        // `dTpw` is u:p.
        let ring = keyring(
            r#"{"auths": {
                "https://index.docker.io/v1/": {"auth": "dTpw"},
                "*.example.org": {"username": "star", "password": "x"},
                "reg.example.org/team": {"username": "team", "password": "x"},
                "local:5000": {"username": "port", "password": "x"},
                "https://old.example/v1/team/": {"username": "old", "password": "x"},
                "empty.example": {}}}"#,
        );
        let rows: [(&str, &[&str]); 12] = [
            ("busybox:1", &["u"]),
            ("library/busybox:1", &["u"]),
            ("docker.io/library/busybox", &["u"]),
            ("reg.example.org/team/app:1", &["team", "star"]),
            ("reg.example.org/other", &["star"]),
            ("a.b.example.org/x", &[]),
            ("example.org/x", &[]),
            ("local:5000/x", &["port"]),
            ("local:5001/x", &[]),
            ("old.example/team/x", &["old"]),
            ("old.example/x", &[]),
            ("empty.example/x", &[]),
        ];
        for (image, wanted) in rows {
            let got: Vec<_> = ring
                .lookup(image)
                .into_iter()
                .map(|a| a.auth.username)
                .collect();
            assert_eq!(got, wanted, "{image}");
        }
    }

    #[test]
    fn secrets_of_both_kinds() {
        let mut ring = Keyring::default();
        let secret = |kind: &str, key: &str, text: &str| Secret {
            kind: kind.to_owned(),
            data: BTreeMap::from([(key.to_owned(), text.as_bytes().to_vec())]),
            ..Secret::default()
        };
        let mut add = |secret: Secret| ring.add_secret("n", "s", &secret);
        let entry = r#"{"r.example": {"auth": "dTpw"}}"#;
        assert!(add(secret("kubernetes.io/dockercfg", ".dockercfg", entry)));
        let json = format!(r#"{{"auths": {entry}}}"#);
        assert!(add(secret(
            "kubernetes.io/dockerconfigjson",
            ".dockerconfigjson",
            &json
        )));
        assert!(!add(secret("Opaque", ".dockercfg", entry)));
        assert!(!add(secret("kubernetes.io/dockercfg", ".dockercfg", "no")));
        let found = ring.lookup("r.example/x");
        assert_eq!(found.len(), 2);
        let secret = found[0].secret.as_ref().unwrap();
        assert_eq!((&*secret.namespace, &*secret.name), ("n", "s"));
        assert_eq!(secret.credential_hash, found[0].hash);
    }
}
