//! The node's own credentials: Docker's `config.json`, the old `.dockercfg`, and the helper
//! programs they name.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tokio::process::Command;

use super::credentials::{Credentials, host_of, same_registry};
use crate::blocking::blocking;
use crate::{Error, Result};

/// A helper that takes longer than this hangs.
const HELPER_TIMEOUT: Duration = Duration::from_secs(30);

/// Neither a file of credentials nor what a helper answers is longer.
const LARGEST: u64 = 1 << 20;

/// The first credentials in `files` for images at `host` and `path`. A file that is missing
/// has none; a file that is broken is an error.
pub(super) async fn lookup(
    files: &[PathBuf],
    host: &str,
    path: &str,
) -> Result<Option<Credentials>> {
    for file in files {
        let Some(text) = read(file.clone()).await? else {
            continue;
        };
        let config = parse(&text).map_err(|error| Error::Configuration {
            path: file.display().to_string(),
            reason: error.to_string(),
        })?;
        if let Some(found) = config.find(host, path, file).await? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

async fn read(file: PathBuf) -> Result<Option<Vec<u8>>> {
    blocking(move || match orlop_disk::read_file(&file, LARGEST) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(wrong(&file, error.to_string())),
    })
    .await
}

#[derive(Deserialize, Default)]
struct DockerConfig {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
    #[serde(default, rename = "credHelpers")]
    helpers: BTreeMap<String, String>,
    #[serde(default, rename = "credsStore")]
    store: String,
}

#[derive(Deserialize, Default)]
struct Entry {
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
    #[serde(default)]
    auth: String,
    #[serde(default, rename = "identitytoken")]
    identity_token: String,
    #[serde(default, rename = "registrytoken")]
    registry_token: String,
}

fn parse(text: &[u8]) -> serde_json::Result<DockerConfig> {
    let value: serde_json::Value = serde_json::from_slice(text)?;
    let keys = ["auths", "credHelpers", "credsStore"];
    if keys.iter().any(|key| value.get(key).is_some()) {
        serde_json::from_value(value)
    } else {
        // The old file is the "auths" table alone; other settings of the new one aren't entries.
        let entries = value.as_object().into_iter().flatten();
        let auths = entries
            .filter_map(|(key, value)| {
                Some((key.clone(), serde_json::from_value(value.clone()).ok()?))
            })
            .collect();
        Ok(DockerConfig {
            auths,
            ..DockerConfig::default()
        })
    }
}

impl DockerConfig {
    async fn find(&self, host: &str, path: &str, file: &Path) -> Result<Option<Credentials>> {
        let helper = self
            .helpers
            .iter()
            .find(|(key, _)| same_registry(&host_of(key), host))
            .map(|(key, helper)| (key.as_str(), helper.as_str()))
            .or_else(|| (!self.store.is_empty()).then_some((host, self.store.as_str())));
        if let Some((server, helper)) = helper
            && let Some(found) = ask(helper, server, file).await?
        {
            return Ok(Some(found));
        }
        // The longest matching key is the most specific.
        let best = self
            .auths
            .iter()
            .filter(|(key, _)| key_matches(key, host, path))
            .max_by_key(|(key, _)| key.len());
        Ok(best.map(|(_, entry)| Credentials {
            username: entry.username.clone(),
            password: entry.password.clone(),
            auth: entry.auth.clone(),
            identity_token: entry.identity_token.clone(),
            registry_token: entry.registry_token.clone(),
            server_address: host.to_owned(),
        }))
    }
}

/// Keys are hosts, URLs or host and path; `*` stands for a part of a host name, as in the
/// kubelet's matching.
fn key_matches(key: &str, host: &str, path: &str) -> bool {
    let bare = key
        .strip_prefix("https://")
        .or_else(|| key.strip_prefix("http://"))
        .unwrap_or(key);
    let (key_host, key_path) = bare.split_once('/').unwrap_or((bare, ""));
    let key_path = match key_path.trim_end_matches('/') {
        // Docker's historic "…/v1/" and "…/v2/" name the protocol, not a path.
        "v1" | "v2" => "",
        path => path,
    };
    let path_ok = key_path.is_empty()
        || path
            .strip_prefix(key_path)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    path_ok && (same_registry(&key_host.to_lowercase(), host) || glob(key_host, host))
}

fn glob(pattern: &str, host: &str) -> bool {
    if !pattern.contains('*') {
        return false;
    }
    let (patterns, labels): (Vec<_>, Vec<_>) =
        (pattern.split('.').collect(), host.split('.').collect());
    patterns.len() == labels.len()
        && patterns
            .iter()
            .zip(labels)
            .all(|(pattern, label)| match pattern.split_once('*') {
                None => *pattern == label,
                Some((start, end)) => {
                    label.len() >= start.len() + end.len()
                        && label.starts_with(start)
                        && label.ends_with(end)
                }
            })
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HelperAnswer {
    username: String,
    secret: String,
}

/// Runs `docker-credential-HELPER get`. No credentials is no error.
async fn ask(helper: &str, server: &str, file: &Path) -> Result<Option<Credentials>> {
    if helper.is_empty() || helper.contains('/') {
        let reason = format!("{helper:?} is not the name of a credential helper");
        return Err(wrong(file, reason));
    }
    ask_program(format!("docker-credential-{helper}").as_ref(), server, file).await
}

async fn ask_program(program: &Path, server: &str, file: &Path) -> Result<Option<Credentials>> {
    let failed = |reason: String| wrong(file, reason);
    let shown = program.display();
    let mut command = Command::new(program);
    command.arg("get");
    let said = orlop_pool::ask(command, server.as_bytes(), LARGEST, HELPER_TIMEOUT)
        .await
        .map_err(|error| failed(format!("running {shown}: {error}")))?;
    if !said.status.success() {
        tracing::debug!(program = %shown, server, "the credential helper has nothing");
        return Ok(None);
    }
    let answer: HelperAnswer = serde_json::from_slice(&said.answer)
        .map_err(|_| failed(format!("{shown} gave an answer that can't be read")))?;
    let mut found = Credentials {
        server_address: server.to_owned(),
        ..Credentials::default()
    };
    if answer.username == "<token>" {
        found.identity_token = answer.secret;
    } else {
        (found.username, found.password) = (answer.username, answer.secret);
    }
    Ok(Some(found))
}

fn wrong(file: &Path, reason: String) -> Error {
    Error::Configuration {
        path: file.display().to_string(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_match_hosts_paths_and_patterns() {
        for (key, host, path, matches) in [
            (
                "https://index.docker.io/v1/",
                "registry-1.docker.io",
                "library/x",
                true,
            ),
            ("a.example", "a.example", "x", true),
            ("a.example/team", "a.example", "team/x", true),
            ("a.example/team", "a.example", "teams/x", false),
            ("*.example", "a.example", "x", true),
            ("*.example", "b.a.example", "x", false),
            ("reg-*.a.io", "reg-1.a.io", "x", true),
            ("b.example", "a.example", "x", false),
        ] {
            assert_eq!(key_matches(key, host, path), matches, "{key} {host} {path}");
        }
    }

    #[tokio::test]
    async fn a_credentials_file_without_end_is_refused_by_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.json");
        let endless = std::fs::File::create(&file).unwrap();
        endless.set_len(LARGEST + 1).unwrap();
        let looked = lookup(&[file], "a.example", "x").await;
        let error = looked.unwrap_err().to_string();
        assert!(
            error.contains("config.json") && error.contains("1048576 bytes"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_helper_that_never_stops_talking_is_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let write = |helper: &str, script: &str| {
            use std::os::unix::fs::PermissionsExt as _;
            let path = dir.path().join(format!("docker-credential-{helper}"));
            std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        write("babbles", "exec cat /dev/zero");
        write(
            "tells",
            r#"echo "{\"Username\":\"<token>\",\"Secret\":\"of-$(cat)\"}""#,
        );
        let ask = async |helper| {
            let program = dir.path().join(format!("docker-credential-{helper}"));
            ask_program(&program, "a.example", &dir.path().join("config.json")).await
        };
        let babbled = ask("babbles").await.unwrap_err().to_string();
        assert!(
            babbled.contains("docker-credential-babbles") && babbled.contains("1048576 bytes"),
            "{babbled}"
        );
        let told = ask("tells").await.unwrap().unwrap();
        assert_eq!(told.identity_token, "of-a.example");
    }

    #[tokio::test]
    async fn the_most_specific_entry_of_the_first_file_wins() {
        let dir = tempfile::tempdir().unwrap();
        let new = dir.path().join("config.json");
        let old = dir.path().join(".dockercfg");
        std::fs::write(
            &new,
            r#"{"auths":{"a.example":{"username":"host"},"a.example/team":{"username":"team"}}}"#,
        )
        .unwrap();
        std::fs::write(
            &old,
            r#"{"a.example":{"username":"old"},"b.example":{"username":"b"}}"#,
        )
        .unwrap();
        let files = [dir.path().join("missing"), new, old];
        let user = async |host: &str, path: &str| {
            lookup(&files, host, path)
                .await
                .unwrap()
                .map(|found| found.username)
        };
        assert_eq!(user("a.example", "team/x").await.as_deref(), Some("team"));
        assert_eq!(user("a.example", "x").await.as_deref(), Some("host"));
        assert_eq!(user("b.example", "x").await.as_deref(), Some("b"));
        assert_eq!(user("c.example", "x").await, None);
    }
}
