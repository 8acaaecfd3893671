//! Network configurations: a `.conflist`, or an old single-plugin `.conf`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::read_bounded::read_bounded;
use super::version::{SpecVersion, UnknownVersion};
use crate::InProcess;
use crate::names::is_cni_name;

/// A network: a name and a chain of plugins.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkConf {
    /// The network's name.
    pub name: String,
    /// The CNI version in which the runtime calls the plugins.
    pub cni_version: SpecVersion,
    /// If set, the runtime does not run CHECK.
    pub disable_check: bool,
    /// If set, the runtime does not run GC.
    pub disable_gc: bool,
    /// Whether the plugins run in process, if the configuration says so.
    pub in_process: Option<InProcess>,
    /// The plugins, in the order of the chain.
    pub plugins: Vec<PluginConf>,
}

/// One plugin of a chain.
#[derive(Debug, Clone, PartialEq)]
pub struct PluginConf {
    /// The plugin's type, which is also the name of its program.
    pub kind: String,
    /// The complete configuration as written.
    pub raw: Map<String, Value>,
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfError {
    /// The configuration is not JSON, or a key has the wrong type.
    #[error("not a CNI network configuration")]
    Malformed(#[source] serde_json::Error),
    /// The network's name is missing or not allowed.
    #[error("the network name {0:?} is not valid; use only letters, digits, '_', '.' and '-'")]
    Name(String),
    /// A plugin has no type, or one that is not a plain file name.
    #[error("plugin {index} has the type {kind:?}, which is not a program name")]
    Kind {
        /// Position in the chain.
        index: usize,
        /// The type as written.
        kind: String,
    },
    /// The list has no plugins.
    #[error("the network {0:?} has no plugins")]
    NoPlugins(String),
    /// The CNI version is unknown.
    #[error(transparent)]
    Version(#[from] UnknownVersion),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListForm {
    #[serde(default)]
    name: String,
    #[serde(default)]
    cni_version: String,
    #[serde(default)]
    cni_versions: Vec<String>,
    #[serde(default)]
    disable_check: Flag,
    #[serde(default, rename = "disableGC")]
    disable_gc: Flag,
    #[serde(default, rename = "orlop.inProcess")]
    in_process: Option<InProcess>,
    #[serde(default)]
    plugins: Vec<Map<String, Value>>,
}

/// A boolean that some configurations write as a string.
#[derive(Default)]
struct Flag(bool);

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Bool(flag) => Ok(Self(flag)),
            Value::Null => Ok(Self(false)),
            Value::String(text) => match text.to_ascii_lowercase().as_str() {
                "true" => Ok(Self(true)),
                "" | "false" => Ok(Self(false)),
                other => Err(serde::de::Error::custom(format!(
                    "{other:?} is neither true nor false"
                ))),
            },
            other => Err(serde::de::Error::custom(format!(
                "{other} is neither true nor false"
            ))),
        }
    }
}

impl NetworkConf {
    /// Reads a `.conflist`.
    pub fn from_list(value: Value) -> Result<Self, ConfError> {
        let form: ListForm = serde_json::from_value(value).map_err(ConfError::Malformed)?;
        if !is_cni_name(&form.name) {
            return Err(ConfError::Name(form.name.chars().take(64).collect()));
        }
        let plugins = form
            .plugins
            .into_iter()
            .enumerate()
            .map(|(index, raw)| PluginConf::new(index, raw))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            name: form.name,
            cni_version: choose_version(&form.cni_version, &form.cni_versions)?,
            disable_check: form.disable_check.0,
            disable_gc: form.disable_gc.0,
            in_process: form.in_process,
            plugins,
        })
    }

    /// Reads a `.conf`, which holds one plugin, as a chain of one plugin.
    pub fn from_single(mut value: Value) -> Result<Self, ConfError> {
        let mut list = json!({
            "name": value.get("name").cloned().unwrap_or_default(),
            "cniVersion": value.get("cniVersion").cloned().unwrap_or_else(|| json!("")),
        });
        if list["name"].is_null() {
            list["name"] = json!("");
        }
        if let Some(mode) = value
            .as_object_mut()
            .and_then(|map| map.remove("orlop.inProcess"))
        {
            list["orlop.inProcess"] = mode;
        }
        list["plugins"] = json!([value]);
        Self::from_list(list)
    }

    /// Reads the contents of a file: a list if it has `plugins`, otherwise a single plugin.
    ///
    /// `dir` is searched for further plugins of the network, in a subdirectory with the network's name. A list that
    /// is complete (`loadOnlyInlinedPlugins`) skips that search.
    pub fn from_bytes(bytes: &[u8], dir: Option<&Path>) -> Result<Self, ConfError> {
        let value: Value = serde_json::from_slice(bytes).map_err(ConfError::Malformed)?;
        let is_list = value.get("plugins").is_some()
            || (value.get("type").is_none() && value.get("name").is_some());
        if !is_list {
            return Self::from_single(value);
        }
        let only_inlined = value
            .get("loadOnlyInlinedPlugins")
            .is_some_and(|v| *v == json!(true));
        let mut conf = Self::from_list(value)?;
        if let (false, Some(dir)) = (only_inlined, dir) {
            conf.append_plugins_of(&dir.join(&conf.name))?;
        }
        if conf.plugins.is_empty() {
            return Err(ConfError::NoPlugins(conf.name));
        }
        Ok(conf)
    }

    /// Returns the network as a `.conflist` that reads back the same.
    pub fn to_list(&self) -> Value {
        let mut list = json!({
            "name": self.name,
            "cniVersion": self.cni_version,
            "disableCheck": self.disable_check,
            "disableGC": self.disable_gc,
            "loadOnlyInlinedPlugins": true,
            "plugins": self.plugins.iter().map(|plugin| &plugin.raw).collect::<Vec<_>>(),
        });
        if let Some(mode) = self.in_process {
            list["orlop.inProcess"] = json!(mode);
        }
        list
    }

    /// Reports whether the chain is only the loopback plugin, which does not count as a network.
    pub fn is_loopback(&self) -> bool {
        self.plugins.iter().all(|plugin| plugin.kind == "loopback")
    }

    fn append_plugins_of(&mut self, dir: &Path) -> Result<(), ConfError> {
        let Ok(entries) = std::fs::read_dir(dir) else {
            return Ok(());
        };
        let mut files: Vec<PathBuf> = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "conf")
            })
            .collect();
        files.sort();
        for file in files {
            let bytes = read_bounded(&file)
                .map_err(|error| ConfError::Malformed(serde_json::Error::io(error)))?;
            let raw = serde_json::from_slice(&bytes).map_err(ConfError::Malformed)?;
            self.plugins.push(PluginConf::new(self.plugins.len(), raw)?);
        }
        Ok(())
    }
}

impl PluginConf {
    fn new(index: usize, raw: Map<String, Value>) -> Result<Self, ConfError> {
        let kind = raw
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        // The type is joined to the program directories: it must not leave them.
        if !is_cni_name(&kind) {
            return Err(ConfError::Kind {
                index,
                kind: kind.chars().take(64).collect(),
            });
        }
        Ok(Self { kind, raw })
    }

    /// Returns the capabilities that this plugin declares.
    pub fn capabilities(&self) -> impl Iterator<Item = &str> {
        self.raw
            .get("capabilities")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .filter(|(_, wanted)| wanted.as_bool() == Some(true))
            .map(|(name, _)| name.as_str())
    }

    /// Builds the configuration that the plugin reads from its standard input.
    pub fn stdin(
        &self,
        network: &NetworkConf,
        capability_args: &BTreeMap<String, Value>,
        previous: Option<&Value>,
    ) -> Map<String, Value> {
        let mut conf = self.raw.clone();
        conf.insert("name".to_owned(), json!(network.name));
        conf.insert("cniVersion".to_owned(), json!(network.cni_version));
        let runtime: Map<String, Value> = self
            .capabilities()
            .filter_map(|name| Some((name.to_owned(), capability_args.get(name)?.clone())))
            .collect();
        if !runtime.is_empty() {
            conf.insert("runtimeConfig".to_owned(), Value::Object(runtime));
        }
        if let Some(previous) = previous {
            conf.insert("prevResult".to_owned(), previous.clone());
        }
        conf
    }
}

/// Chooses the highest known version of those offered.
fn choose_version(single: &str, several: &[String]) -> Result<SpecVersion, UnknownVersion> {
    let known = several.iter().filter_map(|text| text.parse().ok()).max();
    if let Some(version) = known {
        return Ok(version);
    }
    // According to the specification, a configuration without a version is a 0.1.0 one.
    if single.is_empty() {
        Ok(SpecVersion::V0_1_0)
    } else {
        single.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_text(text: &str) -> Result<NetworkConf, ConfError> {
        NetworkConf::from_bytes(text.as_bytes(), None)
    }

    #[test]
    fn lists_and_single_plugins() {
        let list = from_text(
            r#"{"cniVersion":"1.0.0","cniVersions":["0.4.0","1.1.0","7.0.0"],"name":"n","disableCheck":"true",
                "plugins":[{"type":"bridge"},{"type":"portmap","capabilities":{"portMappings":true,"x":false}}]}"#,
        )
        .unwrap();
        assert_eq!(
            (list.cni_version, list.disable_check),
            (SpecVersion::V1_1_0, true)
        );
        assert_eq!(
            list.plugins[1].capabilities().collect::<Vec<_>>(),
            ["portMappings"]
        );
        assert_eq!(NetworkConf::from_list(list.to_list()).unwrap(), list);

        let single = from_text(r#"{"cniVersion":"0.3.1","name":"n","type":"bridge"}"#).unwrap();
        assert_eq!(
            (single.plugins.len(), single.cni_version),
            (1, SpecVersion::V0_3_1)
        );
        assert!(
            from_text(r#"{"name":"lo","type":"loopback"}"#)
                .unwrap()
                .is_loopback()
        );
    }

    #[test]
    fn bad_configurations_say_what_is_wrong() {
        for (text, part) in [
            ("", "not a CNI network"),
            ("[]", "not a CNI network"),
            (r#"{"name":"n"}"#, "no plugins"),
            (r#"{"name":"n","plugins":[]}"#, "no plugins"),
            (
                r#"{"name":"../n","plugins":[{"type":"x"}]}"#,
                "network name",
            ),
            (r#"{"plugins":[{"type":"x"}]}"#, "network name"),
            (r#"{"name":"n","plugins":[{}]}"#, "is not a program name"),
            (
                r#"{"name":"n","plugins":[{"type":"../../bin/sh"}]}"#,
                "is not a program name",
            ),
            (
                r#"{"name":"n","cniVersion":"5","plugins":[{"type":"x"}]}"#,
                "\"5\" is not supported",
            ),
        ] {
            let error = from_text(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn plugins_in_the_networks_directory_are_appended() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("n")).unwrap();
        std::fs::write(dir.path().join("n/20.conf"), r#"{"type":"second"}"#).unwrap();
        std::fs::write(dir.path().join("n/10.conf"), r#"{"type":"first"}"#).unwrap();
        let kinds = |text: &str| {
            let conf = NetworkConf::from_bytes(text.as_bytes(), Some(dir.path())).unwrap();
            conf.plugins
                .into_iter()
                .map(|plugin| plugin.kind)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            kinds(r#"{"name":"n","plugins":[{"type":"a"}]}"#),
            ["a", "first", "second"]
        );
        let alone = r#"{"name":"n","loadOnlyInlinedPlugins":true,"plugins":[{"type":"a"}]}"#;
        assert_eq!(kinds(alone), ["a"]);
    }

    #[test]
    fn stdin_carries_only_declared_capabilities() {
        let list = from_text(
            r#"{"name":"n","cniVersion":"1.0.0","plugins":[{"type":"a","capabilities":{"mac":true}}]}"#,
        )
        .unwrap();
        let args = BTreeMap::from([
            ("mac".to_owned(), json!("m")),
            ("ips".to_owned(), json!(["1"])),
        ]);
        let stdin = list.plugins[0].stdin(&list, &args, Some(&json!({"x": 1})));
        assert_eq!(stdin["runtimeConfig"], json!({"mac": "m"}));
        assert_eq!(
            (&stdin["name"], &stdin["prevResult"]["x"]),
            (&json!("n"), &json!(1))
        );
    }
}
