//! Credential provider plugins, as the kubelet runs them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orlop_credentials::Pattern;
use orlop_cri_api::v1::AuthConfig;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use tokio::process::Command;
use tokio::time::Instant;

use super::credential::Credential;
use super::keyring::{Keyring, is_for};
use crate::text_file::read_text;

/// Size limit of the configuration in bytes.
const LARGEST: u64 = 1 << 20;
/// Timeout of a plugin.
const LIMIT: Duration = Duration::from_mins(1);
/// Size limit of a plugin's output in bytes.
const MAX_ANSWER: u64 = 1 << 20;
/// How many answers are cached.
const MAX_CACHED: usize = 1024;

/// The credential provider plugins (`CredentialProviderConfig`).
#[derive(Debug, Default)]
pub(crate) struct Providers {
    providers: Vec<Provider>,
    bin_dir: PathBuf,
    cache: Mutex<BTreeMap<(String, String), (Instant, Answer)>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Provider {
    name: String,
    match_images: Vec<String>,
    #[serde(default)]
    default_cache_duration: Option<String>,
    api_version: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Vec<Variable>,
    #[serde(default)]
    token_attributes: Option<serde_json::Value>,
}

#[derive(Debug, Clone, Deserialize)]
struct Variable {
    name: String,
    value: String,
}

#[derive(Deserialize)]
struct Config {
    kind: String,
    providers: Vec<Provider>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    #[serde(default)]
    cache_key_type: String,
    #[serde(default)]
    cache_duration: Option<String>,
    #[serde(default)]
    auth: BTreeMap<String, Login>,
}

#[derive(Clone, Deserialize)]
struct Login {
    username: String,
    password: String,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login")
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

impl Providers {
    /// Reads the configuration. Blocks.
    pub(crate) fn read(config: Option<&Path>, bin_dir: Option<&Path>) -> Result<Self, String> {
        let Some(path) = config else {
            return Ok(Self::default());
        };
        let shown = path.display();
        let bin_dir = bin_dir.ok_or_else(|| {
            format!(
                "{shown} configures credential providers; set the directory of their programs \
                 with --image-credential-provider-bin-dir"
            )
        })?;
        let text = read_text(path, LARGEST).map_err(|e| format!("cannot read {shown}: {e}"))?;
        let config: Config = orlop_yaml::from_str(&text)
            .map_err(|e| format!("cannot read the credential providers in {shown}: {e}"))?;
        if config.kind != "CredentialProviderConfig" {
            return Err(format!(
                "{shown} is a {:?}, not a CredentialProviderConfig",
                config.kind
            ));
        }
        for provider in &config.providers {
            let name = &provider.name;
            if name.is_empty() || name.contains(['/', ' ']) || name.starts_with('.') {
                return Err(format!(
                    "{shown} contains a provider with the name {name:?}, which is not a plain file \
                     name"
                ));
            }
            if provider.token_attributes.is_some() {
                return Err(format!(
                    "the provider {name:?} in {shown} needs service account tokens, which only a \
                     cluster issues"
                ));
            }
            if !bin_dir.join(name).is_file() {
                return Err(format!(
                    "the provider {name:?} has no program in {}",
                    bin_dir.display()
                ));
            }
        }
        Ok(Self {
            providers: config.providers,
            bin_dir: bin_dir.to_owned(),
            cache: Mutex::default(),
        })
    }

    /// Returns the plugins' credentials for an image. A plugin that fails is logged and skipped.
    pub(crate) async fn lookup(&self, image: &str) -> Vec<Credential> {
        let mut found = Vec::new();
        for provider in &self.providers {
            let mut patterns = provider.match_images.iter();
            if !patterns.any(|pattern| is_for(&Pattern::plain(pattern), image)) {
                continue;
            }
            match self.ask(provider, image).await {
                Ok(answer) => {
                    let mut keyring = Keyring::default();
                    for (registry, login) in answer.auth {
                        let auth = AuthConfig {
                            username: login.username,
                            password: login.password,
                            ..AuthConfig::default()
                        };
                        keyring.add(&registry, auth, "");
                    }
                    found.extend(keyring.lookup(image));
                }
                Err(error) => {
                    tracing::warn!(
                        provider = provider.name,
                        image,
                        error,
                        "cannot get credentials from a provider"
                    );
                }
            }
        }
        found
    }

    async fn ask(&self, provider: &Provider, image: &str) -> Result<Answer, String> {
        let registry = image.split('/').next().unwrap_or_default();
        for key in [image, registry, "*"] {
            let key = (provider.name.clone(), key.to_owned());
            let cache = self.cache.lock();
            if let Some((until, answer)) = cache.get(&key)
                && Instant::now() < *until
            {
                return Ok(answer.clone());
            }
        }
        let answer = self.run(provider, image).await?;
        let lasts = answer
            .cache_duration
            .as_deref()
            .or(provider.default_cache_duration.as_deref())
            .and_then(|text| orlop_text::duration::parse(text).ok())
            .unwrap_or_default();
        let key = match answer.cache_key_type.as_str() {
            "Registry" => registry,
            "Global" => "*",
            _ => image,
        };
        if !lasts.is_zero() {
            let mut cache = self.cache.lock();
            let now = Instant::now();
            cache.retain(|_, (until, _)| now < *until);
            if cache.len() < MAX_CACHED {
                let until = now + lasts.min(Duration::from_hours(24));
                cache.insert(
                    (provider.name.clone(), key.to_owned()),
                    (until, answer.clone()),
                );
            }
        }
        Ok(answer)
    }

    async fn run(&self, provider: &Provider, image: &str) -> Result<Answer, String> {
        let program = self.bin_dir.join(&provider.name);
        let request = json!({
            "apiVersion": provider.api_version,
            "kind": "CredentialProviderRequest",
            "image": image,
        });
        let mut command = Command::new(&program);
        command
            .args(&provider.args)
            .envs(provider.env.iter().map(|v| (&v.name, &v.value)));
        let said = orlop_pool::ask(command, request.to_string().as_bytes(), MAX_ANSWER, LIMIT)
            .await
            .map_err(|e| format!("cannot run {}: {e}", program.display()))?;
        if !said.status.success() {
            let complaint = String::from_utf8_lossy(&said.complaint);
            return Err(format!(
                "the program failed with {}: {}",
                said.status,
                complaint.trim()
            ));
        }
        serde_json::from_slice(&said.answer)
            .map_err(|e| format!("cannot parse the provider's response: {e}"))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use orlop_testkit::said_of_hostile_files;

    use super::*;

    #[tokio::test]
    async fn a_program_is_asked_once_for_a_registry() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("helper");
        let count = dir.path().join("count");
        let script = format!(
            "#!/bin/sh\ncat >> {count}\necho >> {count}\n\
             echo '{{\"kind\":\"CredentialProviderResponse\",\"cacheKeyType\":\"Registry\",\"cacheDuration\":\"1h0m0s\",\
             \"auth\":{{\"r.example\":{{\"username\":\"'$NAME$1'\",\"password\":\"p\"}}}}}}'\n",
            count = count.display()
        );
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let config = dir.path().join("config.yaml");
        std::fs::write(
            &config,
            "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n\
             - name: helper\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n  matchImages: ['*.example']\n  \
             defaultCacheDuration: 10m\n  args: [-one]\n  env: [{name: NAME, value: me}]\n",
        )
        .unwrap();
        let providers = Providers::read(Some(&config), Some(dir.path())).unwrap();
        for image in ["r.example/a:1", "r.example/b:2"] {
            let found = providers.lookup(image).await;
            assert_eq!(found.len(), 1, "{image}");
            assert_eq!(found[0].auth.username, "me-one");
        }
        assert!(providers.lookup("other.test/a").await.is_empty());
        let asked = std::fs::read_to_string(&count).unwrap();
        assert_eq!(asked.lines().count(), 1, "{asked}");
        assert!(asked.contains("\"image\":\"r.example/a:1\""), "{asked}");
        assert!(Providers::read(Some(&config), None).is_err());
    }

    #[test]
    fn a_configuration_without_end_is_told_by_its_name_and_limit() {
        let [large, pipe] = said_of_hostile_files("providers.yaml", |path| {
            Providers::read(Some(path), path.parent()).expect_err("an error")
        });
        assert!(
            large.contains("DIR/providers.yaml: larger than the limit of 1048576"),
            "{large}"
        );
        assert!(
            pipe.contains("DIR/providers.yaml: not a regular file"),
            "{pipe}"
        );
    }
}
