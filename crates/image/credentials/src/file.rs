//! Docker's `config.json` and the older `.dockercfg`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::entry::Entry;
use crate::helper::{HelperError, Helpers};
use crate::largest::LARGEST;
use crate::registry::{Paths, Pattern, host_of, same_registry, server_of};

/// A credentials file: docker's `config.json`, or the old `.dockercfg`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ConfigFile {
    auths: BTreeMap<String, Entry>,
    /// The helper of each registry.
    #[serde(rename = "credHelpers")]
    helpers: BTreeMap<String, String>,
    /// The helper of all other registries.
    #[serde(rename = "credsStore")]
    store: String,
}

/// Credentials, and the name under which they are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// A key of the file, or the server name passed to a helper.
    pub server: String,
    /// The credentials.
    pub entry: Entry,
}

/// A text that is not a credentials file. The error does not quote the text, which could contain a password.
#[derive(Debug, thiserror::Error)]
#[error("not in the format of Docker's config.json (line {line}, column {column})")]
pub struct Unreadable {
    line: usize,
    column: usize,
}

impl ConfigFile {
    /// Reads such a file. Blocks.
    pub fn text(path: &Path) -> std::io::Result<Vec<u8>> {
        orlop_fs::read_file(path, LARGEST)
    }

    /// Parses either format.
    pub fn parse(text: &[u8]) -> Result<Self, Unreadable> {
        let file: BTreeMap<String, serde_json::Value> = json(text)?;
        let keys = ["auths", "credHelpers", "credsStore"];
        if keys.iter().any(|key| file.contains_key(*key)) {
            Self::of_config_json(text)
        } else {
            Ok(Self::of_entries(file))
        }
    }

    /// Parses a `config.json`.
    pub fn of_config_json(text: &[u8]) -> Result<Self, Unreadable> {
        json(text)
    }

    /// Parses a `.dockercfg`, which only contains the entries.
    pub fn of_dockercfg(text: &[u8]) -> Result<Self, Unreadable> {
        json(text).map(Self::of_entries)
    }

    /// Ignores settings that are not entries.
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

    /// Returns the file's own non-empty entries, by their keys.
    pub fn into_entries(self) -> impl Iterator<Item = (String, Entry)> {
        let opened = self.auths.into_iter().map(|(key, it)| (key, it.opened()));
        opened.filter(|(_, entry)| !entry.is_empty())
    }

    /// Returns the most specific entry of the file for a path of a host.
    pub fn entry(self, host: &str, path: &str) -> Option<Found> {
        self.into_entries()
            .map(|(key, entry)| (Pattern::of_key(&key), key, entry))
            .filter(|(pattern, ..)| pattern.is_for(host, path, Paths::ByName))
            .max_by_key(|(pattern, ..)| pattern.weight())
            .map(|(_, server, entry)| Found { server, entry })
    }

    /// Asks the file's helper for a host's credentials. A helper for this registry takes precedence over the general
    /// one.
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
