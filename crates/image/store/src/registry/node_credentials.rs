//! The node's own credentials: Docker's `config.json`, the old `.dockercfg`, podman's `auth.json`, and the helper
//! programs in them.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use orlop_credentials::{ConfigFile, Entry, HelperError, Helpers};

use super::credentials::Credentials;
use crate::blocking::answering;
use crate::registries::FILES;
use crate::{Error, Result};

/// Credentials and their source.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) credentials: Credentials,
    /// Description of the source; never a secret.
    pub(super) source: String,
}

/// The sources of the node's credentials.
pub(super) struct NodeCredentials {
    pub(super) files: Vec<PathBuf>,
    /// Helpers for all registries, in order; one special name stands for the files.
    pub(super) helpers: Vec<String>,
    pub(super) programs: Helpers,
}

impl NodeCredentials {
    /// Returns the credentials for images at `host` and `path`.
    pub(super) async fn known(&self, host: &str, path: &str) -> Result<Option<Known>> {
        for helper in &self.helpers {
            let found = if helper == FILES {
                lookup(&self.files, host, path).await?
            } else {
                let asked = self.programs.ask(helper, host).await;
                let source = format!("docker-credential-{helper} (credential-helpers)");
                let entry = asked_for(asked, &source, host)?;
                entry.map(|entry| known(entry, host, source))
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

/// Returns the first credentials in `files` for images at `host` and `path`. Ignores missing files; an invalid file
/// is an error.
pub(super) async fn lookup(files: &[PathBuf], host: &str, path: &str) -> Result<Option<Known>> {
    for file in files {
        let Some(config) = read(file.clone()).await? else {
            continue;
        };
        let place = file.display().to_string();
        let asked = config.ask(&Helpers::default(), host).await;
        let told = asked_for(asked, &place, host)?;
        let source = format!("a credential helper configured in {place}");
        if let Some(found) = told {
            return Ok(Some(known(found.entry, host, source)));
        }
        if let Some(found) = config.entry(host, path) {
            let source = format!("{place} ({:?})", found.server);
            return Ok(Some(known(found.entry, host, source)));
        }
    }
    Ok(None)
}

/// Returns the errors of the credential files. Blocks.
pub fn check(files: &[PathBuf]) -> Vec<Error> {
    let wrong = files.iter().filter_map(|file| parse(file).err());
    wrong.collect()
}

/// Treats the failure of a helper as missing credentials, because helpers report those in their own words.
fn asked_for<T>(
    asked: Result<Option<T>, HelperError>,
    place: &str,
    host: &str,
) -> Result<Option<T>> {
    match asked {
        Err(error @ HelperError::Failed(_)) => {
            tracing::warn!(place, host, %error, "cannot get credentials from a credential helper");
            Ok(None)
        }
        asked => asked.map_err(|error| wrong(Path::new(place), error.to_string())),
    }
}

fn known(entry: Entry, host: &str, source: String) -> Known {
    Known {
        credentials: Credentials {
            username: entry.username,
            password: entry.password,
            auth: entry.auth,
            identity_token: entry.identity_token,
            registry_token: entry.registry_token,
            // The host that was asked, regardless of the name in the file.
            server_address: host.to_owned(),
        },
        source,
    }
}

async fn read(file: PathBuf) -> Result<Option<ConfigFile>> {
    answering(move || parse(&file)).await
}

fn parse(file: &Path) -> Result<Option<ConfigFile>> {
    match ConfigFile::text(file) {
        Ok(text) => ConfigFile::parse(&text)
            .map(Some)
            .map_err(|error| wrong(file, error.to_string())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(wrong(file, error.to_string())),
    }
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

    #[tokio::test]
    async fn a_credentials_file_without_end_is_refused_by_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.json");
        let endless = std::fs::File::create(&file).unwrap();
        endless.set_len(orlop_credentials::LARGEST + 1).unwrap();
        let looked = lookup(&[file], "a.example", "x").await;
        let error = looked.unwrap_err().to_string();
        assert!(
            error.contains("config.json") && error.contains("1048576 bytes"),
            "{error}"
        );
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
                .map(|found| found.credentials.username)
        };
        assert_eq!(user("a.example", "team/x").await.as_deref(), Some("team"));
        assert_eq!(user("a.example", "x").await.as_deref(), Some("host"));
        assert_eq!(user("b.example", "x").await.as_deref(), Some("b"));
        assert_eq!(user("c.example", "x").await, None);
    }

    #[tokio::test]
    async fn helpers_of_all_registries_are_asked_in_their_order() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("auth.json");
        let text = r#"{"auths":{"a.example":{"username":"file"},"b.example":{"username":"file"}}}"#;
        std::fs::write(&file, text).unwrap();
        let helper = dir.path().join("docker-credential-one");
        let script = "#!/bin/sh\nread host\nif [ \"$host\" = a.example ]; then\n\
                      echo '{\"Username\":\"helper\",\"Secret\":\"s\"}'\nelse\n\
                      echo credentials not found in native keychain; exit 1\nfi\n";
        std::fs::write(&helper, script).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&helper, mode).unwrap();
        let node = |helpers: &[&str]| NodeCredentials {
            files: vec![file.clone()],
            helpers: helpers.iter().map(|&helper| helper.to_owned()).collect(),
            programs: Helpers::in_dir(dir.path()),
        };
        for (helpers, host, user, source) in [
            (
                &["one", FILES][..],
                "a.example",
                "helper",
                "docker-credential-one",
            ),
            (&["one", FILES], "b.example", "file", "auth.json"),
            (&[FILES, "one"], "a.example", "file", "auth.json"),
        ] {
            let known = node(helpers).known(host, "x").await.unwrap().unwrap();
            assert_eq!(known.credentials.username, user, "{helpers:?} {host}");
            assert!(known.source.contains(source), "{}", known.source);
        }
        assert!(
            node(&["one"])
                .known("b.example", "x")
                .await
                .unwrap()
                .is_none()
        );
        let missing = node(&["two"]).known("b.example", "x").await.unwrap_err();
        assert!(
            missing.to_string().contains("docker-credential-two"),
            "{missing}"
        );
    }
}
