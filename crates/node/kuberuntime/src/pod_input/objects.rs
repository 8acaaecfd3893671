//! Objects that pod manifests refer to: ConfigMaps, Secrets and RuntimeClasses.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use orlop_kubelet_rules::pod::ResourceList;
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

/// Why an object is rejected.
#[derive(Debug, Error)]
pub enum InputError {
    /// A field does not match its Kubernetes type.
    #[error("invalid {kind}: {source}")]
    NotA {
        /// The kind of object.
        kind: &'static str,
        /// The parse error.
        source: serde_json::Error,
    },
    /// The pod has no usable identity.
    #[error("the pod's {field} must not be empty, contain a slash, or be . or ..")]
    Identity {
        /// The field.
        field: &'static str,
    },
    /// The value of a Secret is not valid base64.
    #[error(
        "the value {key:?} of the Secret {name:?} is not valid base64; write plain text to \
         stringData"
    )]
    NotBase64 {
        /// The secret.
        name: String,
        /// The key.
        key: String,
    },
    /// An object has no name.
    #[error("a {kind} has no metadata.name")]
    Nameless {
        /// The kind of object.
        kind: String,
    },
}

/// Objects that pod manifests refer to, by namespace and name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Objects {
    config_maps: BTreeMap<(String, String), BTreeMap<String, Vec<u8>>>,
    secrets: BTreeMap<(String, String), Secret>,
    runtime_classes: BTreeMap<String, RuntimeClass>,
}

/// A Secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret {
    /// Its `metadata.uid`, which few manifests set.
    pub uid: String,
    /// Its type, as `kubernetes.io/dockerconfigjson`.
    pub kind: String,
    /// Its values by key.
    pub data: BTreeMap<String, Vec<u8>>,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret")
            .field("uid", &self.uid)
            .field("kind", &self.kind)
            .field("keys", &self.data.keys().collect::<Vec<_>>())
            .finish()
    }
}

/// A RuntimeClass.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RuntimeClass {
    /// The runtime's handler.
    pub handler: String,
    /// The overhead of a pod of this class.
    pub overhead: ResourceList,
    /// Labels that a node must have for pods of this class.
    pub node_selector: BTreeMap<String, String>,
    /// The tolerations of pods of this class, unparsed.
    pub tolerations: Vec<Value>,
}

impl Objects {
    /// Adds an object; `false` if its kind is not used. It replaces an object of the same name.
    pub fn add(&mut self, object: &Value) -> Result<bool, InputError> {
        let kind = object["kind"].as_str().unwrap_or_default();
        let written = |name: &'static str| {
            Written::deserialize(object).map_err(|source| InputError::NotA { kind: name, source })
        };
        match kind {
            "ConfigMap" => {
                let written = written("ConfigMap")?;
                let mut values = written.plain(written.data.as_ref());
                for (key, text) in written.binary_data.iter().flatten() {
                    values.insert(key.clone(), written.decoded(key, text)?);
                }
                self.config_maps.insert(written.key(kind)?, values);
            }
            "Secret" => {
                let written = written("Secret")?;
                let mut data = BTreeMap::new();
                for (key, text) in written.data.iter().flatten() {
                    data.insert(key.clone(), written.decoded(key, text)?);
                }
                data.extend(written.plain(written.string_data.as_ref()));
                let kind = written.kind.clone().unwrap_or_else(|| "Opaque".to_owned());
                let uid = written.metadata.uid.clone().unwrap_or_default();
                let secret = Secret { uid, kind, data };
                self.secrets.insert(written.key("Secret")?, secret);
            }
            "RuntimeClass" => {
                let written = written("RuntimeClass")?;
                let (_, name) = written.key(kind)?;
                let scheduling = written.scheduling.unwrap_or_default();
                let class = RuntimeClass {
                    handler: written.handler.unwrap_or_default(),
                    overhead: written.overhead.map(|o| o.pod_fixed).unwrap_or_default(),
                    node_selector: scheduling.node_selector.unwrap_or_default(),
                    tolerations: scheduling.tolerations.unwrap_or_default(),
                };
                self.runtime_classes.insert(name, class);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the values of a ConfigMap.
    pub fn config_map(&self, namespace: &str, name: &str) -> Option<&BTreeMap<String, Vec<u8>>> {
        self.config_maps
            .get(&(namespace.to_owned(), name.to_owned()))
    }

    /// Returns a Secret.
    pub fn secret(&self, namespace: &str, name: &str) -> Option<&Secret> {
        self.secrets.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// Returns a RuntimeClass.
    pub fn runtime_class(&self, name: &str) -> Option<&RuntimeClass> {
        self.runtime_classes.get(name)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    metadata: WrittenMeta,
    #[serde(default)]
    data: Option<BTreeMap<String, String>>,
    #[serde(default)]
    binary_data: Option<BTreeMap<String, String>>,
    #[serde(default)]
    string_data: Option<BTreeMap<String, String>>,
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    handler: Option<String>,
    #[serde(default)]
    overhead: Option<WrittenOverhead>,
    #[serde(default)]
    scheduling: Option<WrittenScheduling>,
}

#[derive(Deserialize, Default)]
struct WrittenMeta {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    uid: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct WrittenScheduling {
    #[serde(default)]
    node_selector: Option<BTreeMap<String, String>>,
    #[serde(default)]
    tolerations: Option<Vec<Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenOverhead {
    #[serde(default)]
    pod_fixed: ResourceList,
}

impl Written {
    fn key(&self, kind: &str) -> Result<(String, String), InputError> {
        if self.metadata.name.is_empty() {
            return Err(InputError::Nameless {
                kind: kind.to_owned(),
            });
        }
        let namespace = self.metadata.namespace.as_deref();
        let namespace = namespace.filter(|n| !n.is_empty()).unwrap_or("default");
        Ok((namespace.to_owned(), self.metadata.name.clone()))
    }

    #[allow(clippy::unused_self, reason = "reads beside `decoded`")]
    fn plain(&self, values: Option<&BTreeMap<String, String>>) -> BTreeMap<String, Vec<u8>> {
        let values = values.into_iter().flatten();
        values
            .map(|(key, text)| (key.clone(), text.clone().into_bytes()))
            .collect()
    }

    fn decoded(&self, key: &str, text: &str) -> Result<Vec<u8>, InputError> {
        // YAML folds long values into several lines.
        let dense: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        BASE64_STANDARD
            .decode(dense)
            .map_err(|_| InputError::NotBase64 {
                name: self.metadata.name.clone(),
                key: key.to_owned(),
            })
    }
}
