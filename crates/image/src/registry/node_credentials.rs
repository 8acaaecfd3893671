//! The node's own credentials: Docker's `config.json`, the old `.dockercfg`, and the helper
//! programs they name.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use orlop_credentials::{ConfigFile, HelperError, Helpers};

use super::credentials::Credentials;
use crate::blocking::blocking;
use crate::{Error, Result};

/// The first credentials in `files` for images at `host` and `path`. A file that is missing
/// has none; a file that is broken is an error.
pub(super) async fn lookup(
    files: &[PathBuf],
    host: &str,
    path: &str,
) -> Result<Option<Credentials>> {
    for file in files {
        let Some(config) = read(file.clone()).await? else {
            continue;
        };
        let told = match config.ask(&Helpers::default(), host).await {
            Ok(told) => told,
            // It may have none in words of its own.
            Err(error @ HelperError::Failed(_)) => {
                tracing::warn!(file = %file.display(), host, %error, "no credentials");
                None
            }
            Err(error) => return Err(wrong(file, error.to_string())),
        };
        if let Some(found) = told.or_else(|| config.entry(host, path)) {
            return Ok(Some(Credentials {
                username: found.entry.username,
                password: found.entry.password,
                auth: found.entry.auth,
                identity_token: found.entry.identity_token,
                registry_token: found.entry.registry_token,
                // Whatever it is called where it was found.
                server_address: host.to_owned(),
            }));
        }
    }
    Ok(None)
}

async fn read(file: PathBuf) -> Result<Option<ConfigFile>> {
    blocking(move || match ConfigFile::text(&file) {
        Ok(text) => ConfigFile::parse(&text)
            .map(Some)
            .map_err(|error| wrong(&file, error.to_string())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(wrong(&file, error.to_string())),
    })
    .await
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
                .map(|found| found.username)
        };
        assert_eq!(user("a.example", "team/x").await.as_deref(), Some("team"));
        assert_eq!(user("a.example", "x").await.as_deref(), Some("host"));
        assert_eq!(user("b.example", "x").await.as_deref(), Some("b"));
        assert_eq!(user("c.example", "x").await, None);
    }
}
