//! The node's own registry credentials, in files of the format of Docker's `config.json`.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orlop_cri::v1::AuthConfig;
use serde::Deserialize;

use crate::credential_helper::Helpers;
use crate::docker::RegistryAuth;

/// Larger files are none of credentials.
const LARGEST: u64 = 1 << 20;

#[derive(Deserialize, Default)]
#[serde(default)]
struct File {
    auths: HashMap<String, Entry>,
    /// The helper of a registry.
    #[serde(rename = "credHelpers")]
    helpers: BTreeMap<String, String>,
    /// The helper of all others.
    #[serde(rename = "credsStore")]
    store: String,
}

impl File {
    /// The helper that knows a registry, and the name that it knows it by.
    fn helper(&self, host: &str) -> Option<(&str, String)> {
        let own = self.helpers.iter().find(|(key, _)| host_of(key) == host);
        if let Some((key, helper)) = own {
            return Some((helper, key.clone()));
        }
        let server = match host {
            // What `docker login` stores it by.
            "docker.io" => "https://index.docker.io/v1/",
            host => host,
        };
        (!self.store.is_empty()).then(|| (self.store.as_str(), server.to_owned()))
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Entry {
    auth: String,
    username: String,
    password: String,
    identitytoken: String,
    registrytoken: String,
}

/// What the node knows about the registry of a repository. Files are read at each pull.
pub(crate) async fn of_node(files: &[PathBuf], repository: &str) -> Option<RegistryAuth> {
    of_files(files, repository, &Helpers::default()).await
}

async fn of_files(files: &[PathBuf], repository: &str, helpers: &Helpers) -> Option<RegistryAuth> {
    let host = registry_of(repository);
    for path in files {
        let Some(file) = read(path.clone()).await else {
            continue;
        };
        if let Some((helper, server)) = file.helper(host) {
            match helpers.ask(helper, &server).await {
                Ok(Some(found)) => return Some(found),
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(file = %path.display(), helper, error, "no credentials");
                }
            }
        }
        if let Some(found) = matching(file, host) {
            return Some(found);
        }
    }
    None
}

async fn read(path: PathBuf) -> Option<File> {
    let reading = tokio::task::spawn_blocking(move || {
        let text = orlop_disk::read_file(&path, LARGEST)
            .inspect_err(|error| {
                tracing::warn!(file = %path.display(), %error, "cannot read credentials");
            })
            .ok()?;
        serde_json::from_slice(&text)
            // The error could quote the file.
            .inspect_err(|_| {
                tracing::warn!(file = %path.display(), "not in the format of Docker's config.json");
            })
            .ok()
    });
    reading.await.ok().flatten()
}

/// The host in a repository's name, as the engine reads it.
fn registry_of(repository: &str) -> &str {
    const DEFAULT: &str = "docker.io";
    match repository.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => host,
        _ => DEFAULT,
    }
}

fn matching(file: File, host: &str) -> Option<RegistryAuth> {
    let (key, entry) = file
        .auths
        .into_iter()
        .find(|(key, _)| host_of(key) == host)?;
    let (username, password) = decoded(&entry.auth).unwrap_or((entry.username, entry.password));
    Some(RegistryAuth {
        username,
        password,
        serveraddress: key,
        identitytoken: entry.identitytoken,
        registrytoken: entry.registrytoken,
    })
}

/// Keys are hosts, or URLs of old.
fn host_of(key: &str) -> &str {
    let rest = key
        .strip_prefix("https://")
        .or_else(|| key.strip_prefix("http://"))
        .unwrap_or(key);
    let host = rest.split('/').next().unwrap_or_default();
    match host {
        "index.docker.io" | "registry-1.docker.io" => "docker.io",
        host => host,
    }
}

/// `USER:PASSWORD` in base64.
fn decoded(auth: &str) -> Option<(String, String)> {
    let text = String::from_utf8(STANDARD.decode(auth).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.trim_end_matches('\0').to_owned()))
}

/// What a request brought, in the engine's spelling. `None` if it brought nothing.
pub(crate) fn of_request(auth: AuthConfig) -> Option<RegistryAuth> {
    let (username, password) = if auth.username.is_empty() {
        decoded(&auth.auth).unwrap_or_default()
    } else {
        (auth.username, auth.password)
    };
    let auth = RegistryAuth {
        username,
        password,
        serveraddress: auth.server_address,
        identitytoken: auth.identity_token,
        registrytoken: auth.registry_token,
    };
    (auth != RegistryAuth::default()).then_some(auth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_registrys_entry_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.json");
        let text = format!(
            r#"{{"auths":{{"https://index.docker.io/v1/":{{"auth":"{}"}},"r.example:5000":{{"username":"u","password":"p"}}}}}}"#,
            STANDARD.encode("me:se:cret")
        );
        std::fs::write(&path, text).unwrap();
        let files = [path];
        let hub = of_node(&files, "library/busybox").await.unwrap();
        assert_eq!((&*hub.username, &*hub.password), ("me", "se:cret"));
        let own = of_node(&files, "r.example:5000/a/b").await.unwrap();
        assert_eq!(own.username, "u");
        assert!(of_node(&files, "r.example/a").await.is_none());
        assert_eq!(format!("{own:?}"), "RegistryAuth { .. }");
    }

    #[test]
    fn a_request_may_bring_them_encoded() {
        let auth = AuthConfig {
            auth: STANDARD.encode("me:secret"),
            ..Default::default()
        };
        assert_eq!(of_request(auth).unwrap().password, "secret");
        assert_eq!(of_request(AuthConfig::default()), None);
    }

    #[tokio::test]
    async fn a_registry_s_helper_is_asked_before_what_the_file_has_itself() {
        let dir = tempfile::tempdir().unwrap();
        let helpers = Helpers::in_dir(dir.path());
        helpers.write(
            "own",
            r#"echo "{\"Username\":\"of-$(cat)\",\"Secret\":\"s\"}""#,
        );
        helpers.write(
            "all",
            r#"echo "{\"Username\":\"<token>\",\"Secret\":\"$(cat)\"}""#,
        );
        helpers.write(
            "none",
            "echo credentials not found in native keychain; exit 1",
        );
        let path = dir.path().join("config.json");
        let text = r#"{"credsStore":"all","credHelpers":{"own.example":"own","no.example":"none",
            "sly.example":"../own"},"auths":{"own.example":{"username":"file"},
            "no.example":{"username":"file"},"sly.example":{"username":"file"}}}"#;
        std::fs::write(&path, text).unwrap();
        let files = [path];
        let user = async |repository: &str| {
            let found = of_files(&files, repository, &helpers).await.unwrap();
            (found.username, found.identitytoken)
        };
        let plain = |name: &str| (name.to_owned(), String::new());
        assert_eq!(user("own.example/a").await, plain("of-own.example"));
        assert_eq!(user("no.example/a").await, plain("file"));
        assert_eq!(user("sly.example/a").await, plain("file"));
        let token = |of: &str| (String::new(), of.to_owned());
        assert_eq!(user("other.example/a").await, token("other.example"));
        assert_eq!(user("busybox").await, token("https://index.docker.io/v1/"));
    }
}
