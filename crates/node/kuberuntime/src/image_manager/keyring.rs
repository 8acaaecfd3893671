//! Credentials by registry.

use std::cmp::Reverse;
use std::io::ErrorKind;
use std::path::PathBuf;

use orlop_credentials::{ConfigFile, Paths, Pattern, Unreadable, split_name};
use orlop_cri_api::v1::AuthConfig;
use orlop_kubelet_rules::image::SecretRecord;

use super::credential::{Credential, credential_hash};
use crate::pod_input::Secret;

/// Credentials by registry.
#[derive(Clone, Default)]
pub(crate) struct Keyring {
    entries: Vec<(Pattern, Credential)>,
}

impl Keyring {
    /// Reads the node's credentials: the first `config.json` and the first `.dockercfg` on the
    /// search path. Blocks.
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
        let read = |path: &PathBuf| match ConfigFile::text(path) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) {
                    tracing::warn!(path = %path.display(), %error, "cannot read image registry credentials");
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
        // Only one of them counts: the newer format takes precedence.
        if let Some(found) = from_json.or(from_legacy) {
            keyring = found;
        }
        keyring
    }

    /// Adds the credentials of a pull secret; `false` if it has none that can be parsed.
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

    /// Adds a credential of the node.
    pub(crate) fn add(&mut self, registry: &str, auth: AuthConfig, email: &str) {
        let credential = Credential {
            hash: credential_hash(&auth, email),
            auth,
            secret: None,
        };
        self.entries.push((Pattern::of_key(registry), credential));
    }

    /// Returns the credentials to try for an image, the most specific first.
    pub(crate) fn lookup(&self, image: &str) -> Vec<Credential> {
        let mut found: Vec<_> = self
            .entries
            .iter()
            .filter(|(pattern, _)| is_for(pattern, image))
            .collect();
        found.sort_by_key(|(pattern, _)| Reverse(pattern));
        found.into_iter().map(|(_, it)| it.clone()).collect()
    }

    fn add_config_json(&mut self, text: &[u8]) -> bool {
        self.add_entries(ConfigFile::of_config_json(text))
    }

    fn add_dockercfg(&mut self, text: &[u8]) -> bool {
        self.add_entries(ConfigFile::of_dockercfg(text))
    }

    fn add_entries(&mut self, file: Result<ConfigFile, Unreadable>) -> bool {
        let before = self.entries.len();
        for (registry, entry) in file.into_iter().flat_map(ConfigFile::into_entries) {
            let auth = AuthConfig {
                username: entry.username,
                password: entry.password,
                identity_token: entry.identity_token,
                registry_token: entry.registry_token,
                ..AuthConfig::default()
            };
            // An `auth` that could not be decoded is skipped.
            if auth != AuthConfig::default() {
                self.add(&registry, auth, &entry.email);
            }
        }
        self.entries.len() > before
    }
}

/// Whether a pattern matches an image, by the kubelet's rules.
pub(super) fn is_for(pattern: &Pattern, image: &str) -> bool {
    let (host, path) = split_name(image);
    pattern.is_for(host, &path, Paths::ByStart)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn keyring(json: &str) -> Keyring {
        let mut keyring = Keyring::default();
        assert!(keyring.add_config_json(json.as_bytes()));
        keyring
    }

    #[test]
    fn the_right_key_for_each_image() {
        // `dTpw` is `u:p` in base64.
        let ring = keyring(
            r#"{"auths": {
                "https://index.docker.io/v1/": {"auth": "dTpw"},
                "*.example.org": {"username": "star", "password": "x"},
                "reg.example.org/team": {"username": "team", "password": "x"},
                "local:5000": {"username": "port", "password": "x"},
                "https://old.example/v1/team/": {"username": "old", "password": "x"},
                "empty.example": {}}}"#,
        );
        let rows: [(&str, &[&str]); 13] = [
            ("busybox:1", &["u"]),
            ("library/busybox:1", &["u"]),
            ("docker.io/library/busybox", &["u"]),
            ("reg.example.org/team/app:1", &["team", "star"]),
            ("reg.example.org/teams/app:1", &["team", "star"]),
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
