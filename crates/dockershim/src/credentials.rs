//! Registry credentials of the node, in files of the format of Docker's `config.json`.

use std::path::PathBuf;

use orlop_credentials::{ConfigFile, Found, Helpers, decoded, split_name};
use orlop_cri_api::v1::AuthConfig;

use crate::docker::RegistryAuth;

/// Looks up the node's credentials for the registry of a repository. Reads the files at each pull.
pub(crate) async fn of_node(files: &[PathBuf], repository: &str) -> Option<RegistryAuth> {
    of_files(files, repository, &Helpers::default()).await
}

async fn of_files(files: &[PathBuf], repository: &str, helpers: &Helpers) -> Option<RegistryAuth> {
    let (host, path) = split_name(repository);
    for file in files {
        let Some(config) = read(file.clone()).await else {
            continue;
        };
        let told = config.ask(helpers, host).await.unwrap_or_else(|error| {
            tracing::warn!(file = %file.display(), host, %error, "cannot get credentials from the credential helper");
            None
        });
        if let Some(found) = told.or_else(|| config.entry(host, &path)) {
            return Some(found.into());
        }
    }
    None
}

async fn read(path: PathBuf) -> Option<ConfigFile> {
    let reading = orlop_pool::blocking(move || {
        let text = ConfigFile::text(&path)
            .inspect_err(|error| {
                tracing::warn!(file = %path.display(), %error, "cannot read credentials");
            })
            .ok()?;
        ConfigFile::parse(&text)
            .inspect_err(|error| {
                tracing::warn!(file = %path.display(), %error, "cannot read credentials");
            })
            .ok()
    });
    reading.await.ok().flatten()
}

impl From<Found> for RegistryAuth {
    fn from(found: Found) -> Self {
        let Found { server, entry } = found;
        Self {
            username: entry.username,
            password: entry.password,
            serveraddress: server,
            identitytoken: entry.identity_token,
            registrytoken: entry.registry_token,
        }
    }
}

/// Converts the credentials of a request to the engine's format; `None` if there are none.
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
    use std::os::unix::fs::PermissionsExt as _;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

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
        let write = |helper: &str, script: &str| {
            let path = dir.path().join(format!("docker-credential-{helper}"));
            std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        write(
            "own",
            r#"echo "{\"Username\":\"of-$(cat)\",\"Secret\":\"s\"}""#,
        );
        write(
            "all",
            r#"echo "{\"Username\":\"<token>\",\"Secret\":\"$(cat)\"}""#,
        );
        write(
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
