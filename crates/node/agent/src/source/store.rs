//! The store of applied objects: one file per object, kept across restarts.
//!
//! Applying an object again replaces it. A pod keeps its identity if only fields change that can
//! change in a running pod (images, resources, ephemeral containers, labels and annotations, its
//! deadline and grace period). Otherwise it is stopped and recreated.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use orlop_fs::Outlives;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;

use super::last_good::LARGEST_KEPT;
use super::snapshot::{Snapshot, SourcePod};
use super::texts::now;
use crate::manifest::{Identity, LoadedPod, MADE_FROM, Maker, Remark, SourceKind, identify, load};

/// The change to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verb {
    /// The object is new.
    Created,
    /// The object was updated.
    Configured,
    /// The pod is stopped and recreated.
    Replaced,
    /// The object has not changed.
    Unchanged,
    /// The object was deleted.
    Deleted,
}

/// An object and its change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Applied {
    pub(crate) object: String,
    pub(crate) verb: Verb,
}

/// The result of a request.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) applied: Vec<Applied>,
    pub(crate) remarks: Vec<Remark>,
}

/// Why a request failed.
#[derive(Debug, Error)]
pub(crate) enum StoreError {
    #[error("cannot store applied objects in {}: {source}", path.display())]
    Disk { path: PathBuf, source: io::Error },
    #[error("{0} has not been applied")]
    NotThere(String),
}

/// Kind, namespace and name.
type Key = (String, String, String);

/// The store of applied objects.
#[derive(Debug)]
pub(crate) struct Store {
    directory: PathBuf,
    node: String,
    objects: BTreeMap<Key, Value>,
}

impl Store {
    /// Opens the store. An unreadable file is logged and skipped.
    pub(crate) fn open(directory: &Path, node: &str) -> Result<Self, StoreError> {
        let disk = |source| StoreError::Disk {
            path: directory.to_owned(),
            source,
        };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(disk)?;
        let mut objects = BTreeMap::new();
        for entry in fs::read_dir(directory).map_err(disk)? {
            let path = entry.map_err(disk)?.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let read = orlop_fs::read_file(&path, LARGEST_KEPT);
            match read.and_then(|bytes| Ok(serde_json::from_slice::<Value>(&bytes)?)) {
                Ok(object) => drop(objects.insert(key(&object), object)),
                Err(error) => {
                    tracing::error!(path = %path.display(), %error, "skipped an applied object because its file cannot be read");
                }
            }
        }
        Ok(Self {
            directory: directory.to_owned(),
            node: node.to_owned(),
            objects,
        })
    }

    /// Returns a snapshot of all applied objects.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for ((kind, ..), object) in &self.objects {
            if kind == "Pod" {
                snapshot.pods.push(SourcePod {
                    manifest: object.clone(),
                    kind: SourceKind::Api.word(),
                    origin: "applied".to_owned(),
                    line: 0,
                });
            } else {
                snapshot.objects.push(object.clone());
            }
        }
        snapshot
    }

    /// Applies all valid objects of a text.
    pub(crate) fn apply(&mut self, origin: &str, text: &str) -> Result<Outcome, StoreError> {
        let loaded = load(origin, text);
        let mut outcome = Outcome {
            remarks: loaded.remarks,
            ..Outcome::default()
        };
        for object in loaded.objects {
            let object = Self::with_namespace(object);
            let verb = match self.objects.get(&key(&object)) {
                None => Verb::Created,
                Some(old) if *old == object => Verb::Unchanged,
                Some(_) => Verb::Configured,
            };
            self.keep(object, verb, &mut outcome)?;
        }
        let mut made = Vec::new();
        for LoadedPod { manifest, .. } in loaded.pods {
            let (pod, verb) = self.identified(manifest);
            made.push(key(&pod));
            self.keep(pod, verb, &mut outcome)?;
        }
        for maker in &loaded.makers {
            for old in self.made_from(maker) {
                if !made.contains(&old) {
                    self.forget(&old, &mut outcome)?;
                }
            }
        }
        Ok(outcome)
    }

    /// Deletes all objects of a text.
    pub(crate) fn delete_text(&mut self, origin: &str, text: &str) -> Result<Outcome, StoreError> {
        let loaded = load(origin, text);
        let mut outcome = Outcome {
            remarks: loaded.remarks,
            ..Outcome::default()
        };
        let objects = loaded.objects.into_iter().map(Self::with_namespace);
        let mut keys: Vec<Key> = objects.map(|object| key(&object)).collect();
        keys.extend(loaded.pods.iter().map(|pod| key(&pod.manifest)));
        keys.extend(loaded.makers.iter().flat_map(|maker| self.made_from(maker)));
        for key in keys {
            if self.objects.contains_key(&key) {
                self.forget(&key, &mut outcome)?;
            }
        }
        Ok(outcome)
    }

    /// Deletes an object, or the pods that were created from it.
    pub(crate) fn delete(
        &mut self,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Outcome, StoreError> {
        let mut outcome = Outcome::default();
        let all = self.objects.keys();
        let mut keys: Vec<Key> = all
            .filter(|(k, ns, n)| k.eq_ignore_ascii_case(kind) && ns == namespace && n == name)
            .cloned()
            .collect();
        if keys.is_empty() {
            let lower = format!("{}/{name}", kind.to_lowercase());
            keys = self.pods_where(|pod| {
                let from = pod["metadata"]["annotations"][MADE_FROM].as_str();
                pod["metadata"]["namespace"] == namespace
                    && from.is_some_and(|from| from.to_lowercase() == lower)
            });
        }
        if keys.is_empty() {
            return Err(StoreError::NotThere(format!("{kind} {namespace}/{name}")));
        }
        for key in keys {
            self.forget(&key, &mut outcome)?;
        }
        Ok(outcome)
    }

    /// Returns the manifest with its existing identity, or a new one.
    fn identified(&self, mut manifest: Value) -> (Value, Verb) {
        let old = self.objects.get(&key(&manifest));
        let given = manifest["metadata"]["uid"].is_string();
        let identity = Identity {
            kind: SourceKind::Api,
            origin: "applied",
            node: &self.node,
        };
        let annotation = "kubernetes.io/config.seen";
        let Some(old) = old else {
            if !given {
                manifest["metadata"]["uid"] = json!(random_uid());
            }
            identify(&mut manifest, identity);
            manifest["metadata"]["annotations"][annotation] = json!(now());
            return (manifest, Verb::Created);
        };
        if !given {
            manifest["metadata"]["uid"] = old["metadata"]["uid"].clone();
        }
        identify(&mut manifest, identity);
        manifest["metadata"]["annotations"][annotation] =
            old["metadata"]["annotations"][annotation].clone();
        if manifest == *old {
            return (manifest, Verb::Unchanged);
        }
        if lasting(&manifest) == lasting(old) {
            return (manifest, Verb::Configured);
        }
        if !given {
            manifest["metadata"]["uid"] = json!(random_uid());
        }
        manifest["metadata"]["annotations"][annotation] = json!(now());
        (manifest, Verb::Replaced)
    }

    fn with_namespace(mut object: Value) -> Value {
        let namespaced = object["kind"] != "RuntimeClass";
        if namespaced
            && object["metadata"]["namespace"]
                .as_str()
                .is_none_or(str::is_empty)
        {
            object["metadata"]["namespace"] = json!("default");
        }
        object
    }

    fn made_from(&self, maker: &Maker) -> Vec<Key> {
        let from = format!("{}/{}", maker.kind, maker.name);
        self.pods_where(|pod| {
            pod["metadata"]["namespace"] == maker.namespace.as_str()
                && pod["metadata"]["annotations"][MADE_FROM] == from.as_str()
        })
    }

    fn pods_where(&self, wanted: impl Fn(&Value) -> bool) -> Vec<Key> {
        let pods = self.objects.iter().filter(|((kind, ..), _)| kind == "Pod");
        pods.filter(|(_, pod)| wanted(pod))
            .map(|(key, _)| key.clone())
            .collect()
    }

    fn keep(&mut self, object: Value, verb: Verb, outcome: &mut Outcome) -> Result<(), StoreError> {
        let key = key(&object);
        if verb != Verb::Unchanged {
            let path = self.path(&key);
            // Written durably, because there is no other copy.
            serde_json::to_vec(&object)
                .map_err(io::Error::other)
                .and_then(|bytes| orlop_fs::write_file(&path, 0o600, Outlives::PowerCut, &bytes))
                .map_err(|source| StoreError::Disk { path, source })?;
        }
        outcome.applied.push(Applied {
            object: shown(&key),
            verb,
        });
        self.objects.insert(key, object);
        Ok(())
    }

    fn forget(&mut self, key: &Key, outcome: &mut Outcome) -> Result<(), StoreError> {
        let path = self.path(key);
        if let Err(source) = orlop_fs::remove_file(&path) {
            return Err(StoreError::Disk { path, source });
        }
        self.objects.remove(key);
        outcome.applied.push(Applied {
            object: shown(key),
            verb: Verb::Deleted,
        });
        Ok(())
    }

    /// Valid kinds, namespaces and names contain neither slashes nor underscores.
    fn path(&self, (kind, namespace, name): &Key) -> PathBuf {
        self.directory
            .join(format!("{kind}_{namespace}_{name}.json"))
    }
}

fn key(object: &Value) -> Key {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    (
        text(&object["kind"]),
        text(&metadata["namespace"]),
        text(&metadata["name"]),
    )
}

fn shown((kind, namespace, name): &Key) -> String {
    let kind = kind.to_lowercase();
    match namespace.as_str() {
        "" | "default" => format!("{kind}/{name}"),
        _ => format!("{kind}/{namespace}/{name}"),
    }
}

/// Returns the part of a pod that cannot change while it runs.
fn lasting(pod: &Value) -> Value {
    let mut pod = pod.clone();
    if let Some(metadata) = pod["metadata"].as_object_mut() {
        for field in ["labels", "annotations"] {
            metadata.remove(field);
        }
    }
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            if let Some(fields) = container.as_object_mut() {
                for field in ["image", "imagePullPolicy", "resources", "resizePolicy"] {
                    fields.remove(field);
                }
            }
        }
    }
    if let Some(spec) = pod["spec"].as_object_mut() {
        for field in [
            "ephemeralContainers",
            "activeDeadlineSeconds",
            "terminationGracePeriodSeconds",
            "tolerations",
            "initContainers",
        ] {
            if field != "initContainers" || spec.get(field).is_some_and(Value::is_null) {
                spec.remove(field);
            }
        }
    }
    pod
}

/// Returns a random uid, version 4 of RFC 9562.
fn random_uid() -> String {
    let bits: u128 = rand::random();
    let bits = bits & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

#[cfg(test)]
mod tests {
    use orlop_testkit::said_of_hostile_files;

    use super::*;

    fn pod(name: &str, rest: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c, \
             image: i:1}}]{rest}}}\n"
        )
    }

    fn verbs(outcome: &Outcome) -> Vec<(&str, Verb)> {
        let applied = outcome.applied.iter();
        applied.map(|it| (it.object.as_str(), it.verb)).collect()
    }

    fn uid(store: &Store, name: &str) -> Value {
        let key = ("Pod".to_owned(), "default".to_owned(), name.to_owned());
        store.objects[&key]["metadata"]["uid"].clone()
    }

    #[test]
    fn objects_come_change_and_go_and_survive() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = Store::open(directory.path(), "n").unwrap();
        let outcome = store.apply("f", &pod("a", "")).unwrap();
        assert_eq!(verbs(&outcome), [("pod/a", Verb::Created)]);
        let first = uid(&store, "a");
        assert_eq!(first.as_str().unwrap().len(), 36);

        let outcome = store.apply("f", &pod("a", "")).unwrap();
        assert_eq!(verbs(&outcome), [("pod/a", Verb::Unchanged)]);
        let newer = pod("a", "").replace("i:1", "i:2");
        let outcome = store.apply("f", &newer).unwrap();
        assert_eq!(verbs(&outcome), [("pod/a", Verb::Configured)]);
        assert_eq!(uid(&store, "a"), first);

        let mut store = Store::open(directory.path(), "n").unwrap();
        assert_eq!(uid(&store, "a"), first);
        let outcome = store.apply("f", &pod("a", ", hostNetwork: true")).unwrap();
        assert_eq!(verbs(&outcome), [("pod/a", Verb::Replaced)]);
        assert_ne!(uid(&store, "a"), first);

        assert!(store.delete("pod", "default", "b").is_err());
        let outcome = store.delete("pod", "default", "a").unwrap();
        assert_eq!(verbs(&outcome), [("pod/a", Verb::Deleted)]);
        assert_eq!(Store::open(directory.path(), "n").unwrap().objects.len(), 0);
    }

    #[test]
    fn a_deployment_that_shrinks_loses_its_last_pods() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = Store::open(directory.path(), "n").unwrap();
        let deployment = |replicas: u32| {
            format!(
                "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec:\n  replicas: \
                 {replicas}\n  template:\n    spec: {{containers: [{{name: c, image: i:1}}]}}\n"
            )
        };
        store.apply("f", &deployment(2)).unwrap();
        let outcome = store.apply("f", &deployment(1)).unwrap();
        assert_eq!(
            verbs(&outcome),
            [("pod/web-0", Verb::Unchanged), ("pod/web-1", Verb::Deleted)]
        );
        let outcome = store.delete("deployment", "default", "web").unwrap();
        assert_eq!(verbs(&outcome), [("pod/web-0", Verb::Deleted)]);
        store.apply("f", &deployment(2)).unwrap();
        let outcome = store.delete_text("f", &deployment(5)).unwrap();
        assert_eq!(outcome.applied.len(), 2);
    }

    #[test]
    fn a_bad_object_is_told_and_the_good_ones_count() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = Store::open(directory.path(), "n").unwrap();
        let text = format!("{}---\nkind: Pod\n", pod("a", ""));
        let outcome = store.apply("f.yaml", &text).unwrap();
        assert_eq!(verbs(&outcome), [("pod/a", Verb::Created)]);
        assert_eq!(outcome.remarks.len(), 1);
    }

    #[test]
    fn what_cannot_have_been_applied_is_passed_over() {
        let said = said_of_hostile_files("pod.json", |path| {
            let store = Store::open(path.parent().unwrap(), "n").unwrap();
            store.objects.len().to_string()
        });
        assert_eq!(said, ["0", "0"]);
    }
}
