//! The image configuration: what to run and how, as the image's author wrote it.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{Digest, Error, Result};

/// The parts of an image's configuration that a runtime acts on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageConfig {
    /// `os/architecture` as the configuration states it; empty parts where it doesn't.
    pub os: String,
    /// See `os`.
    pub architecture: String,
    /// When it was built, RFC 3339, as written.
    pub created: Option<String>,
    /// The user to run as: `user`, `uid`, `user:group` or `uid:gid`.
    pub user: String,
    /// `NAME=value` pairs.
    pub env: Vec<String>,
    /// The command's fixed start.
    pub entrypoint: Vec<String>,
    /// The command's default arguments.
    pub cmd: Vec<String>,
    /// The directory to start in.
    pub working_dir: String,
    /// Paths that want a volume.
    pub volumes: Vec<String>,
    /// `80/tcp` and the like.
    pub exposed_ports: Vec<String>,
    /// The signal that ends the container in good order.
    pub stop_signal: String,
    /// Free-form labels.
    pub labels: BTreeMap<String, String>,
    /// Digests of the uncompressed layers, base first.
    pub diff_ids: Vec<Digest>,
}

impl ImageConfig {
    /// Parses the configuration blob of `what`.
    pub(crate) fn parse(what: &str, bytes: &[u8]) -> Result<Self> {
        let raw: Raw = serde_json::from_slice(bytes)
            .map_err(|error| Error::invalid(format!("configuration of {what}"), error))?;
        let rootfs = raw.rootfs.ok_or_else(|| {
            Error::Unsupported(format!(
                "{what} is not a container image: its configuration lists no layers"
            ))
        })?;
        let run = raw.config.unwrap_or_default();
        Ok(Self {
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
            diff_ids: rootfs.diff_ids.unwrap_or_default(),
        })
    }

    /// What names the whole stack of layers (OCI image specification, "Layer ChainID"); `None`
    /// without layers.
    pub fn chain_id(&self) -> Option<Digest> {
        let step = |chain: Option<Digest>, diff_id| Some(Digest::chain(chain.as_ref(), diff_id));
        self.diff_ids.iter().fold(None, step)
    }

    /// The numeric user, if `user` starts with a number.
    pub fn uid(&self) -> Option<i64> {
        self.user_part().parse().ok().filter(|uid| *uid >= 0)
    }

    /// The user's name, if `user` doesn't start with a number; else empty.
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

// Builders write `null` for any of these.
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

/// Very old builders wrote a single command as a plain string.
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
}
