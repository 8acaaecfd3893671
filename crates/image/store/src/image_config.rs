//! The image configuration: command, environment and layers, as the image's author wrote them.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use serde::Deserialize;

use crate::artifact::Artifact;
use crate::manifest::Manifest;
use crate::{Digest, Error, Platform, Result};

/// The parts of an image's configuration that a runtime uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageConfig {
    /// The operating system in the configuration; empty if it is missing.
    pub os: String,
    /// The architecture in the configuration; empty if it is missing.
    pub architecture: String,
    /// Build time in RFC 3339 format, as written.
    pub created: Option<String>,
    /// The user to run as: `user`, `uid`, `user:group` or `uid:gid`.
    pub user: String,
    /// `NAME=value` pairs.
    pub env: Vec<String>,
    /// The fixed first words of the command.
    pub entrypoint: Vec<String>,
    /// The command's default arguments.
    pub cmd: Vec<String>,
    /// The working directory.
    pub working_dir: String,
    /// Paths where a volume is mounted.
    pub volumes: Vec<String>,
    /// Exposed ports such as `80/tcp`.
    pub exposed_ports: Vec<String>,
    /// The signal that stops the container gracefully.
    pub stop_signal: String,
    /// Free-form labels.
    pub labels: BTreeMap<String, String>,
    /// Digests of the uncompressed layers, base first.
    pub diff_ids: Vec<Digest>,
    /// Path of the only layer of a WebAssembly artifact, which is a module instead of an archive. It is always the
    /// program that runs.
    pub module: Option<String>,
    /// The artifact, if it is not an image.
    pub artifact: Option<Artifact>,
}

/// A layer as it will be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedLayer {
    /// Key of the layer.
    pub(crate) name: Digest,
    /// Path and mode of the blob, if it is a single file instead of an archive.
    pub(crate) file: Option<(String, u32)>,
    /// Expected digest of the archive, if there is one.
    pub(crate) diff_id: Option<Digest>,
}

/// Path of a module in artifacts that name no program.
const MODULE: &str = "/module.wasm";

/// Mode of modules, which must be executable.
const MODE_OF_MODULES: u32 = 0o755;
const MODE_OF_FILES: u32 = 0o644;

/// Label of images by runwasi's builder that have modules as layers: the digest of all layer digests.
const LAYERS_LABEL: &str = "containerd.runwasi.layers";

impl ImageConfig {
    /// Parses the configuration blob of `what`.
    pub(crate) fn parse(what: &str, bytes: &[u8]) -> Result<Self> {
        let raw: Raw = serde_json::from_slice(bytes)
            .map_err(|error| Error::invalid(format!("configuration of {what}"), error))?;
        let described = raw.rootfs.map(|rootfs| rootfs.diff_ids.unwrap_or_default());
        let is_artifact = described.as_deref().is_none_or(<[Digest]>::is_empty);
        let diff_ids = described.or(raw.layer_digests).ok_or_else(|| {
            Error::Unsupported(format!(
                "{what} is not a container image: its configuration lists no layers"
            ))
        })?;
        let run = raw.config.unwrap_or_default();
        let mut config = Self {
            os: raw.os.unwrap_or_default(),
            architecture: raw.architecture.unwrap_or_default(),
            created: raw.created,
            user: run.user.unwrap_or_default(),
            env: run.env.unwrap_or_default(),
            entrypoint: run.entrypoint.unwrap_or_default(),
            cmd: run.cmd.unwrap_or_default(),
            working_dir: run.working_dir.unwrap_or_default(),
            volumes: run.volumes.unwrap_or_default().into_keys().collect(),
            exposed_ports: run.exposed_ports.unwrap_or_default().into_keys().collect(),
            stop_signal: run.stop_signal.unwrap_or_default(),
            labels: run.labels.unwrap_or_default(),
            diff_ids,
            module: None,
            artifact: None,
        };
        if is_artifact && config.platform().is_wasm() {
            if config.entrypoint.is_empty() && config.cmd.is_empty() {
                config.entrypoint.push(MODULE.to_owned());
            }
            config.module = Some(config.module_path());
        }
        Ok(config)
    }

    /// Returns the configuration of an artifact, whose data comes from its manifest.
    pub(crate) fn of_artifact(artifact: Artifact) -> Self {
        Self {
            artifact: Some(artifact),
            ..Self::default()
        }
    }

    /// Returns the layers to store for a manifest. The key of a single file also depends on its path.
    pub(crate) fn plan(&self, manifest: &Manifest) -> Vec<PlannedLayer> {
        let made = |blob: &Digest, file: Option<(String, u32)>| {
            let made_of = match &file {
                Some((path, MODE_OF_MODULES)) => format!("{blob} as {path}"),
                Some((path, mode)) => format!("{blob} as {path} with mode {mode:o}"),
                None => format!("{blob} unpacked"),
            };
            PlannedLayer {
                name: Digest::of(made_of.as_bytes()),
                file,
                diff_id: None,
            }
        };
        if let Some(artifact) = &self.artifact {
            let layers = artifact.layers.iter();
            return layers
                .map(|layer| {
                    let file = layer.file.clone();
                    made(&layer.blob, file.map(|path| (path, MODE_OF_FILES)))
                })
                .collect();
        }
        if let Some(path) = &self.module {
            let layers = manifest.layers.iter();
            return layers
                .map(|layer| made(&layer.digest, Some((path.clone(), MODE_OF_MODULES))))
                .collect();
        }
        let planned = |diff_id: &Digest| PlannedLayer {
            name: *diff_id,
            file: None,
            diff_id: Some(*diff_id),
        };
        self.diff_ids.iter().map(planned).collect()
    }

    /// Returns the platform of the image.
    pub fn platform(&self) -> Platform {
        Platform::new(&self.os, &self.architecture, "")
    }

    /// Returns the path of the module: the first word of the command, without a function name after it.
    fn module_path(&self) -> String {
        let word = self.entrypoint.iter().chain(&self.cmd).next();
        let path = word
            .and_then(|word| word.split('#').next())
            .unwrap_or_default();
        let path = Path::new("/").join(&self.working_dir).join(path);
        path.to_string_lossy().into_owned()
    }

    /// Returns whether an artifact's configuration names this layer. Otherwise another artifact with the same
    /// configuration, and so the same image id, could replace it.
    pub(crate) fn names_module(&self, layer: &Digest) -> bool {
        let label = self.labels.get(LAYERS_LABEL);
        match self.diff_ids[..] {
            [] => label.is_some_and(|label| *label == Digest::of(layer.hex().as_bytes()).hex()),
            [only] => only == *layer,
            _ => false,
        }
    }

    /// Returns the keys that its layers have if their archives were hashed: diff ids and chain ids. Returns `None`
    /// for artifacts, whose layers have other keys.
    pub(crate) fn proven_names(&self) -> Option<HashSet<Digest>> {
        if self.artifact.is_some() || self.module.is_some() {
            return None;
        }
        let names = self.diff_ids.iter().zip(self.chain_ids());
        Some(names.flat_map(|(own, above)| [*own, above]).collect())
    }

    /// Returns the chain id of each layer, base first.
    pub(crate) fn chain_ids(&self) -> impl Iterator<Item = Digest> {
        self.diff_ids.iter().scan(None, |chain, diff_id| {
            *chain = Some(Digest::chain(chain.as_ref(), diff_id));
            *chain
        })
    }

    /// Returns the chain id of all layers (OCI image specification, "Layer ChainID"), or `None` if there are none.
    pub fn chain_id(&self) -> Option<Digest> {
        self.chain_ids().last()
    }

    /// Returns the numeric user, if `user` starts with a number.
    pub fn uid(&self) -> Option<i64> {
        self.user_part().parse().ok().filter(|uid| *uid >= 0)
    }

    /// Returns the user's name; empty if `user` starts with a number.
    pub fn username(&self) -> &str {
        if self.uid().is_some() {
            ""
        } else {
            self.user_part()
        }
    }

    fn user_part(&self) -> &str {
        self.user.split(':').next().unwrap_or("")
    }
}

#[derive(Deserialize)]
struct Raw {
    #[serde(rename = "layerDigests")]
    layer_digests: Option<Vec<Digest>>,
    os: Option<String>,
    architecture: Option<String>,
    created: Option<String>,
    config: Option<RawRun>,
    rootfs: Option<RawRootfs>,
}

#[derive(Deserialize)]
struct RawRootfs {
    diff_ids: Option<Vec<Digest>>,
}

// Builders may write `null` for any of these.
#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase")]
struct RawRun {
    user: Option<String>,
    env: Option<Vec<String>>,
    #[serde(default, deserialize_with = "words")]
    entrypoint: Option<Vec<String>>,
    #[serde(default, deserialize_with = "words")]
    cmd: Option<Vec<String>>,
    working_dir: Option<String>,
    volumes: Option<BTreeMap<String, serde_json::Value>>,
    exposed_ports: Option<BTreeMap<String, serde_json::Value>>,
    stop_signal: Option<String>,
    labels: Option<BTreeMap<String, String>>,
}

/// Deserializes a command. Very old builders wrote it as a plain string.
fn words<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Vec<String>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Words {
        Many(Vec<String>),
        One(String),
    }
    Ok(
        Option::<Words>::deserialize(from)?.map(|words| match words {
            Words::Many(words) => words,
            Words::One(word) => vec![word],
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(run: &str) -> ImageConfig {
        let text = format!(
            r#"{{"os":"linux","config":{run},"rootfs":{{"type":"layers","diff_ids":[]}}}}"#
        );
        ImageConfig::parse("x", text.as_bytes()).unwrap()
    }

    #[test]
    fn users_are_told_apart_from_numbers() {
        for (user, uid, name) in [
            ("", None, ""),
            ("1002", Some(1002), ""),
            ("1003:1004", Some(1003), ""),
            ("www-data", None, "www-data"),
            ("www-data:1004", None, "www-data"),
            ("-1", None, "-1"),
        ] {
            let config = config(&format!(r#"{{"User":"{user}"}}"#));
            assert_eq!((config.uid(), config.username()), (uid, name), "{user}");
        }
    }

    #[test]
    fn null_and_missing_fields_are_empty() {
        let config = config(r#"{"Env":null,"Cmd":null,"Entrypoint":"one","Volumes":{"/data":{}}}"#);
        assert_eq!(config.env, Vec::<String>::new());
        assert_eq!(config.entrypoint, ["one"]);
        assert_eq!(config.volumes, ["/data"]);
    }

    #[test]
    fn an_artifact_is_not_an_image() {
        assert!(matches!(
            ImageConfig::parse("x", b"{}"),
            Err(Error::Unsupported(_))
        ));
    }

    #[test]
    fn an_artifact_of_webassembly_says_where_its_module_is_and_which() {
        let (one, other) = (Digest::of(b"1"), Digest::of(b"2"));
        let parse = |text: &str| ImageConfig::parse("x", text.as_bytes()).unwrap();
        let artifact =
            format!(r#"{{"os":"wasip1","architecture":"wasm","layerDigests":["{one}"]}}"#);
        let artifact = parse(&artifact);
        assert_eq!(artifact.module.as_deref(), Some("/module.wasm"));
        assert!(artifact.names_module(&one) && !artifact.names_module(&other));
        let of_builder = |run: &str| {
            let label = Digest::of(one.hex().as_bytes()).hex();
            parse(&format!(
                r#"{{"os":"wasip1","architecture":"wasm","rootfs":{{"type":"layers","diff_ids":[]}},
                "config":{{"Labels":{{"containerd.runwasi.layers":"{label}"}}{run}}}}}"#
            ))
        };
        let image = of_builder(r#","WorkingDir":"/app","Entrypoint":["demo.wasm#go","x"]"#);
        assert_eq!(image.module.as_deref(), Some("/app/demo.wasm"));
        assert!(image.names_module(&one) && !image.names_module(&other));
        assert_eq!(of_builder("").module.as_deref(), Some("/module.wasm"));
        // With layers it is an ordinary image; without layers there is nothing to run.
        let layers =
            format!(r#"{{"os":"wasi","architecture":"wasm","rootfs":{{"diff_ids":["{one}"]}}}}"#);
        assert_eq!(parse(&layers).module, None);
        assert_eq!(config("{}").module, None);
    }
}
