//! Where keys for encrypted layers are, and what they open.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use orlop_encryption::{Budget, Options, PrivateKey, Refused, Wrapped};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

use super::files::{KeysOfFile, directories, keys_in, providers_in};
use super::key_scope::KeysOf;
use super::providers::Providers;
use crate::blocking::blocking;
use crate::manifest::Manifest;
use crate::namespace::{is_plain, shown};
use crate::policy::PolicyFor;
use crate::{Error, Result};

/// So long the key providers may take for all layers of an image.
const PATIENCE: Duration = Duration::from_mins(1);

/// Where keys for encrypted layers are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyFiles {
    /// A directory with private keys, which open layers for all pods, and a directory for each namespace with keys
    /// of its own.
    pub dir: Option<PathBuf>,
    /// The file that names key providers for all pods, as ocicrypt has it. The directory of a namespace may have one
    /// for its own.
    pub providers: Option<PathBuf>,
}

impl KeyFiles {
    /// Whether there may be any key.
    pub fn is_empty(&self) -> bool {
        self.dir.is_none() && self.providers.is_none()
    }

    /// Whose keys are tried for pods of a namespace. Blocks.
    pub(crate) fn of(&self, whom: &PolicyFor) -> Result<KeysOf> {
        let Some(dir) = &self.dir else {
            return Ok(KeysOf::Node);
        };
        match whom {
            PolicyFor::Repair => Ok(KeysOf::Everybody),
            PolicyFor::Namespace(name) if name.is_empty() => Ok(KeysOf::Node),
            PolicyFor::Namespace(name) => {
                let own = dir.join(checked(dir, name)?);
                // Who has none of their own is as all others.
                Ok(if own.is_dir() {
                    KeysOf::Namespace(name.clone())
                } else {
                    KeysOf::Node
                })
            }
        }
    }

    /// Reads all keys and lists of providers of all namespaces: how many keys there are, and what is wrong. Blocks.
    pub fn check(&self) -> (usize, Vec<Error>) {
        let (mut count, mut errors) = (0, Vec::new());
        let dirs = self.dir.as_deref().map_or_else(
            || Ok(Vec::new()),
            |dir| directories(dir, &KeysOf::Everybody),
        );
        match dirs {
            Ok(dirs) => {
                for dir in dirs {
                    match keys_in(&dir) {
                        Ok(keys) => count += keys.iter().map(|file| file.len()).sum::<usize>(),
                        Err(error) => errors.push(error),
                    }
                }
                errors.extend(self.providers(&KeysOf::Everybody).err());
            }
            Err(error) => errors.push(error),
        }
        (count, errors)
    }

    /// What opens the layers of a manifest, in their order; nothing for those that are not encrypted.
    pub(crate) async fn open(
        &self,
        what: &str,
        manifest: &Manifest,
        whose: &KeysOf,
    ) -> Result<Vec<Option<Arc<Options>>>> {
        let mut opened = Vec::with_capacity(manifest.layers.len());
        if !manifest.is_encrypted() {
            opened.resize_with(manifest.layers.len(), || None);
            return Ok(opened);
        }
        if self.is_empty() {
            return Err(Error::NoKey {
                what: what.to_owned(),
                reason: "it is encrypted, and this node has no decryption keys; set images.decryption_keys"
                    .to_owned(),
            });
        }
        let (files, whom) = (self.clone(), whose.clone());
        let tried = blocking(move || files.load(&whom)).await?;
        let deadline = Instant::now() + PATIENCE;
        for layer in &manifest.layers {
            if !layer.is_encrypted() {
                opened.push(None);
                continue;
            }
            let options = tried.open(&layer.annotations, deadline).await;
            let options = options.map_err(|reason| Error::NoKey {
                what: format!("layer {} of {what}", layer.digest),
                reason,
            })?;
            opened.push(Some(Arc::new(options)));
        }
        Ok(opened)
    }

    fn load(&self, whose: &KeysOf) -> Result<Tried> {
        let mut keys = Vec::new();
        if let Some(dir) = &self.dir {
            for dir in directories(dir, whose)? {
                keys.extend(keys_in(&dir)?);
            }
        }
        Ok(Tried {
            place: self.dir.clone(),
            keys: Arc::new(keys),
            budget: Arc::default(),
            providers: self.providers(whose)?,
        })
    }

    /// The key providers of a namespace, and those for all pods.
    fn providers(&self, whose: &KeysOf) -> Result<Vec<Providers>> {
        let mut all = Vec::new();
        if let Some(dir) = &self.dir {
            for own in directories(dir, whose)? {
                let Some(file) = providers_in(&own) else {
                    continue;
                };
                if own != *dir {
                    all.push(Providers::read(&file)?);
                } else if self.providers.as_ref() != Some(&file) {
                    let reason = "key providers for all pods belong in the file that images.key_providers specifies";
                    return Err(Error::keys(&file, reason));
                }
            }
        }
        if let Some(file) = &self.providers {
            all.push(Providers::read(file)?);
        }
        Ok(all)
    }
}

/// What is tried to open layers with.
struct Tried {
    place: Option<PathBuf>,
    keys: Arc<Vec<KeysOfFile>>,
    budget: Arc<Mutex<Budget>>,
    /// Those of a namespace come first.
    providers: Vec<Providers>,
}

impl Tried {
    /// Opens a layer, or says why that cannot be.
    async fn open(
        &self,
        annotations: &BTreeMap<String, String>,
        deadline: Instant,
    ) -> Result<Options, String> {
        let wrapped = Wrapped::of(annotations).map_err(|refused| refused.to_string())?;
        let wrapped = Arc::new(wrapped);
        let (keys, layer) = (Arc::clone(&self.keys), Arc::clone(&wrapped));
        let budget = Arc::clone(&self.budget);
        let opened = blocking(move || {
            let keys = keys.iter().flat_map(|file| file.iter());
            let keys: Vec<&PrivateKey> = keys.collect();
            Ok(layer.open_within(&keys, &mut budget.lock()))
        })
        .await;
        let refused = match opened.map_err(|error| error.to_string())? {
            Ok(Some(options)) => return Ok(options),
            Ok(None) => Refused::NoKey(wrapped.schemes()),
            // A provider may know better.
            Err(refused) => refused,
        };
        let mut reasons = vec![refused.to_string()];
        for name in wrapped.providers() {
            let mut named = self.providers.iter().filter_map(|all| all.get(name));
            let mut next = named.next();
            if next.is_none() {
                let how = "add it to the file that images.key_providers specifies";
                reasons.push(format!("key provider {name:?} is not configured; {how}"));
            }
            while let Some(provider) = next {
                let asked = timeout_at(deadline, provider.open(name, &wrapped)).await;
                match asked {
                    Ok(Ok(options)) => return Ok(options),
                    Ok(Err(reason)) => reasons.push(format!("key provider {name:?}: {reason}")),
                    Err(_) => reasons.push(format!(
                        "key provider {name:?}: no answer before the timeout"
                    )),
                }
                next = named.next();
            }
        }
        let count: usize = self.keys.iter().map(|file| file.len()).sum();
        let place = self.place.as_deref().map_or_else(String::new, |dir| {
            format!(" (keys tried: {count}, from {})", dir.display())
        });
        Err(format!("{}{place}", reasons.join("; ")))
    }
}

/// A namespace as the name of a directory: it must not lead out of its place.
fn checked<'n>(dir: &Path, namespace: &'n str) -> Result<&'n str> {
    if is_plain(namespace) {
        return Ok(namespace);
    }
    let shown = shown(namespace);
    Err(Error::keys(
        dir,
        format!("{shown:?} is not a valid namespace name"),
    ))
}
