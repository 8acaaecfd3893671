//! Docker's `config.json`, read anew when it changed.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::entry::Entry;
use crate::helper::{HelperError, Helpers};
use crate::largest::LARGEST;
use crate::registry::{Paths, Pattern, host_of, same_registry, server_of};

/// A file of credentials: docker's `config.json`, or the `.dockercfg` of old.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ConfigFile {
    auths: BTreeMap<String, Entry>,
    /// The helper of a registry.
    #[serde(rename = "credHelpers")]
    helpers: BTreeMap<String, String>,
    /// The helper of all others.
    #[serde(rename = "credsStore")]
    store: String,
}

/// Credentials, and the registry that they are for in the words of who knows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// A key of the file, or what a helper was asked for.
    pub server: String,
    /// What opens it.
    pub entry: Entry,
}

/// Why a text is no file of credentials. What it says is not quoted: it could be a password.
#[derive(Debug, thiserror::Error)]
#[error("not in the format of Docker's config.json (line {line}, column {column})")]
pub struct Unreadable {
    line: usize,
    column: usize,
}

impl ConfigFile {
    /// The text of such a file. Blocks.
    pub fn text(path: &Path) -> std::io::Result<Vec<u8>> {
        orlop_fs::read_file(path, LARGEST)
    }

    /// Reads either format.
    pub fn parse(text: &[u8]) -> Result<Self, Unreadable> {
        let file: BTreeMap<String, serde_json::Value> = json(text)?;
        let keys = ["auths", "credHelpers", "credsStore"];
        if keys.iter().any(|key| file.contains_key(*key)) {
            Self::of_config_json(text)
        } else {
            Ok(Self::of_entries(file))
        }
    }

    /// Reads a `config.json`.
    pub fn of_config_json(text: &[u8]) -> Result<Self, Unreadable> {
        json(text)
    }

    /// Reads a `.dockercfg`, which is the entries alone.
    pub fn of_dockercfg(text: &[u8]) -> Result<Self, Unreadable> {
        json(text).map(Self::of_entries)
    }

    /// Other settings beside the entries are none.
    fn of_entries(values: BTreeMap<String, serde_json::Value>) -> Self {
        let auths = values
            .into_iter()
            .filter_map(|(key, value)| Some((key, serde_json::from_value(value).ok()?)))
            .collect();
        Self {
            auths,
            ..Self::default()
        }
    }

    /// The file's own entries that open something, by their keys.
    pub fn into_entries(self) -> impl Iterator<Item = (String, Entry)> {
        let opened = self.auths.into_iter().map(|(key, it)| (key, it.opened()));
        opened.filter(|(_, entry)| !entry.is_empty())
    }

    /// The file's own entry that says the most about what is at a path of a host.
    pub fn entry(self, host: &str, path: &str) -> Option<Found> {
        self.into_entries()
            .map(|(key, entry)| (Pattern::of_key(&key), key, entry))
            .filter(|(pattern, ..)| pattern.is_for(host, path, Paths::ByName))
            .max_by_key(|(pattern, ..)| pattern.weight())
            .map(|(_, server, entry)| Found { server, entry })
    }

    /// What the helper that the file names for a host knows. A registry's own comes before the one of
    /// all others.
    pub async fn ask(&self, helpers: &Helpers, host: &str) -> Result<Option<Found>, HelperError> {
        let own = self
            .helpers
            .iter()
            .find(|(key, _)| same_registry(&host_of(key), host))
            .map(|(key, helper)| (helper, key.as_str()));
        let all = (!self.store.is_empty()).then(|| (&self.store, server_of(host)));
        let Some((helper, server)) = own.or(all) else {
            return Ok(None);
        };
        let entry = helpers.ask(helper, server).await?;
        Ok(entry.map(|entry| Found {
            server: server.to_owned(),
            entry,
        }))
    }
}

fn json<T: DeserializeOwned>(text: &[u8]) -> Result<T, Unreadable> {
    serde_json::from_slice(text).map_err(|error| Unreadable {
        line: error.line(),
        column: error.column(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(text: &str, host: &str, path: &str) -> Option<String> {
        let file = ConfigFile::parse(text.as_bytes()).unwrap();
        file.entry(host, path).map(|found| found.entry.username)
    }

    #[test]
    fn the_most_specific_entry_wins_however_long_its_key_is() {
        let text = r#"{"auths":{"https://a.example/v1/":{"username":"host"},
            "a.example/team":{"username":"team"},"a.example/team/app":{}}}"#;
        assert_eq!(user(text, "a.example", "team/app").as_deref(), Some("team"));
        assert_eq!(user(text, "a.example", "x").as_deref(), Some("host"));
        assert_eq!(user(text, "b.example", "x"), None);
    }

    #[test]
    fn the_old_file_is_its_entries_alone() {
        let text = r#"{"a.example":{"auth":"dTpw"},"HttpHeaders":{"x":1},"detachKeys":"ctrl-x"}"#;
        assert_eq!(user(text, "a.example", "x").as_deref(), Some("u"));
        assert!(ConfigFile::parse(b"[]").is_err());
    }

    #[test]
    fn what_cannot_be_read_is_not_quoted() {
        let error = ConfigFile::parse(br#"{"auths":"hush"}"#).unwrap_err();
        let said = format!("{error} {error:?}");
        assert!(said.contains("line 1") && !said.contains("hush"), "{said}");
    }

    #[tokio::test]
    async fn the_store_knows_docker_hub_by_what_docker_login_stores_it_by() {
        let dir = tempfile::tempdir().unwrap();
        let helpers = Helpers::in_dir(dir.path());
        helpers.write(
            "all",
            r#"echo "{\"Username\":\"<token>\",\"Secret\":\"$(cat)\"}""#,
        );
        helpers.write(
            "own",
            r#"echo "{\"Username\":\"of-$(cat)\",\"Secret\":\"s\"}""#,
        );
        let text = br#"{"credsStore":"all","credHelpers":{"https://own.example/":"own"}}"#;
        let file = ConfigFile::parse(text).unwrap();
        let asked = async |host| file.ask(&helpers, host).await.unwrap().unwrap();
        let hub = asked("registry-1.docker.io").await;
        assert_eq!(hub.entry.identity_token, "https://index.docker.io/v1/");
        assert_eq!(hub.server, "https://index.docker.io/v1/");
        assert_eq!(asked("r.example").await.entry.identity_token, "r.example");
        let own = asked("own.example").await.entry;
        assert_eq!(
            (&*own.username, &*own.password),
            ("of-https://own.example/", "s")
        );
    }
}
