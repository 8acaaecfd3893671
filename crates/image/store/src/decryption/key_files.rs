//! Finds the keys for encrypted layers and decrypts layer keys with them.

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

/// Timeout for the key providers, for all layers of an image together.
const PATIENCE: Duration = Duration::from_mins(1);

/// Locations of keys for encrypted layers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyFiles {
    /// Directory with private keys for all pods, and a subdirectory for each namespace with keys of its own.
    pub dir: Option<PathBuf>,
    /// File with the key providers for all pods, in the format of ocicrypt. The directory of a namespace may contain
    /// such a file for that namespace.
    pub providers: Option<PathBuf>,
}

impl KeyFiles {
    /// Returns whether no keys are configured.
    pub fn is_empty(&self) -> bool {
        self.dir.is_none() && self.providers.is_none()
    }

    /// Returns the keys that pods of a namespace may use. Blocks.
    pub(crate) fn of(&self, whom: &PolicyFor) -> Result<KeysOf> {
        let Some(dir) = &self.dir else {
            return Ok(KeysOf::Node);
        };
        match whom {
            PolicyFor::Repair => Ok(KeysOf::Everybody),
            PolicyFor::Namespace(name) if name.is_empty() => Ok(KeysOf::Node),
            PolicyFor::Namespace(name) => {
                let own = dir.join(checked(dir, name)?);
                // A namespace without a directory uses only the keys for all pods.
                Ok(if own.is_dir() {
                    KeysOf::Namespace(name.clone())
                } else {
                    KeysOf::Node
                })
            }
        }
    }

    /// Reads all keys and key providers of all namespaces. Returns the number of keys, and the errors. Blocks.
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

    /// Returns the decryption options of each layer of a manifest, in order, and `None` for layers that are not
    /// encrypted.
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

    /// Returns the key providers of a namespace, then those for all pods.
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

/// The keys and providers to try for a layer.
struct Tried {
    place: Option<PathBuf>,
    keys: Arc<Vec<KeysOfFile>>,
    budget: Arc<Mutex<Budget>>,
    /// Providers of the namespace come first.
    providers: Vec<Providers>,
}

impl Tried {
    /// Finds the decryption options of a layer, or returns the reason why no key decrypts it.
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
            // A key provider may still succeed.
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

/// Checks that a namespace is a valid directory name, which cannot lead outside the directory.
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
