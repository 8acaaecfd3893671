//! The size of `/dev/shm` of a pod created here. The first of these that is set applies: the pod's annotation, if the
//! handler allows it; the mount in the sandbox's specification; the handler's options.

use std::env;
use std::path::Path;

use orlop_cri_api::v1::PodSandboxConfig;
use orlop_fs::SMALL_FILE;
use orlop_text::quantity::Quantity;
use serde::Deserialize;

use crate::error::{Result, failed, invalid};
use crate::options::Options;

/// The default size.
const USUAL: u64 = 64 << 20;
/// The pod annotation, as in CRI-O.
const ANNOTATION: &str = "io.kubernetes.cri-o.ShmSize";
const PLACE: &str = "/dev/shm";
/// The environment variable that passes the handler's settings to the server.
const TOLD: &str = "ORLOP_SHM";

/// The handler's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    size: u64,
    /// Whether pods may override the size.
    by_pods: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            size: USUAL,
            by_pods: false,
        }
    }
}

impl Rules {
    pub(crate) fn of(options: &Options) -> Result<Self> {
        let mut rules = Self::default();
        if !options.shm_size.is_empty() {
            rules.size = quantity(&options.shm_size).ok_or_else(|| {
                no_size(
                    "the option ShmSize of the runtime handler",
                    &options.shm_size,
                )
            })?;
        }
        let mut allowed = options.allowed_annotations.iter();
        rules.by_pods = allowed.any(|allowed| match allowed.strip_suffix('*') {
            Some(begin) => ANNOTATION.starts_with(begin),
            None => allowed == ANNOTATION,
        });
        Ok(rules)
    }

    /// Returns the settings as a variable for the server's environment.
    pub(crate) fn variable(self) -> (&'static str, String) {
        (TOLD, format!("{},{}", self.size, self.by_pods))
    }

    /// Reads the settings from this process's environment.
    pub(crate) fn told() -> Self {
        env::var(TOLD)
            .ok()
            .and_then(|told| Self::parse(&told))
            .unwrap_or_default()
    }

    fn parse(told: &str) -> Option<Self> {
        let (size, by_pods) = told.split_once(',')?;
        Some(Self {
            size: size.parse().ok()?,
            by_pods: by_pods.parse().ok()?,
        })
    }

    /// Returns the size for a pod.
    pub(crate) fn size(self, config: &PodSandboxConfig, bundle: &Path) -> Result<u64> {
        if self.by_pods
            && let Some(wanted) = config.annotations.get(ANNOTATION)
        {
            let what = format!("the annotation {ANNOTATION}");
            return quantity(wanted).ok_or_else(|| no_size(&what, wanted));
        }
        let of_spec = of_spec(bundle)?;
        Ok(of_spec.unwrap_or(self.size))
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    mounts: Vec<Mount>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Mount {
    destination: String,
    #[serde(rename = "type")]
    kind: String,
    options: Vec<String>,
}

/// Reads the size from the sandbox's specification, if there is one: its last tmpfs mount counts.
fn of_spec(bundle: &Path) -> Result<Option<u64>> {
    let path = bundle.join("config.json");
    let text = match orlop_fs::read_file(&path, SMALL_FILE) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("reading", &path)(error)),
    };
    let spec: Spec = serde_json::from_slice(&text).map_err(failed("parsing", &path))?;
    let is_own = |mount: &&Mount| mount.destination == PLACE && mount.kind == "tmpfs";
    let Some(mount) = spec.mounts.iter().rev().find(is_own) else {
        return Ok(None);
    };
    let mut sizes = mount.options.iter().rev();
    let Some(wanted) = sizes.find_map(|option| option.strip_prefix("size=")) else {
        return Ok(None);
    };
    let what = format!("the mount of {PLACE} in {}", path.display());
    let size = kernels(wanted).ok_or_else(|| no_size(&what, wanted))?;
    Ok(Some(size))
}

/// Parses a size in tmpfs's format: `65536k`, `64m`.
fn kernels(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    let number: u64 = number.parse().ok()?;
    bounded(number.checked_mul(1 << shift)?)
}

/// Parses a size in Kubernetes' format: `128Mi`, `1G`.
fn quantity(text: &str) -> Option<u64> {
    let amount: Quantity = text.trim().parse().ok()?;
    bounded(amount.count()?)
}

/// Rejects zero, which means no limit to the kernel.
fn bounded(bytes: u64) -> Option<u64> {
    (bytes > 0 && i64::try_from(bytes).is_ok()).then_some(bytes)
}

fn no_size(what: &str, text: &str) -> orlop_ttrpc::Status {
    invalid(format!(
        "{what}: {text:?} is not a size such as 128Mi or 1G"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(size: &str) -> PodSandboxConfig {
        let annotations = [("a", "b"), (ANNOTATION, size)];
        PodSandboxConfig {
            annotations: annotations
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..PodSandboxConfig::default()
        }
    }

    fn options(size: &str, allowed: &str) -> Options {
        Options {
            shm_size: size.to_owned(),
            allowed_annotations: vec![allowed.to_owned()],
            ..Options::default()
        }
    }

    #[test]
    fn a_pod_says_it_where_the_handler_lets_it() {
        let dir = tempfile::tempdir().unwrap();
        let of = |rules: Rules, size: &str| rules.size(&config(size), dir.path());
        let strict = Rules::of(&options("", "io.kubernetes.cri-o.umask")).unwrap();
        assert_eq!(of(strict, "1Gi").unwrap(), USUAL);
        for allowed in [ANNOTATION, "io.kubernetes.cri-o.*", "*"] {
            let rules = Rules::of(&options("128Mi", allowed)).unwrap();
            assert_eq!(of(rules, "1Gi").unwrap(), 1 << 30, "{allowed}");
            assert_eq!(
                rules
                    .size(&PodSandboxConfig::default(), dir.path())
                    .unwrap(),
                128 << 20
            );
            for wrong in ["", "0", "-1", "much", "9999E"] {
                assert!(of(rules, wrong).is_err(), "{wrong}");
            }
            let (_, told) = rules.variable();
            assert_eq!(Rules::parse(&told), Some(rules));
        }
        assert!(Rules::of(&options("much", "")).is_err());
    }

    #[test]
    fn the_mount_of_the_specification_comes_before_the_handlers_size() {
        let dir = tempfile::tempdir().unwrap();
        let rules = Rules::of(&options("128Mi", "*")).unwrap();
        let with = |kind: &str, size: &str| {
            let spec = format!(
                r#"{{"mounts": [{{"destination": "/dev/shm", "type": "{kind}", "options": ["nosuid", "{size}"]}}]}}"#
            );
            std::fs::write(dir.path().join("config.json"), spec).unwrap();
            rules.size(&PodSandboxConfig::default(), dir.path())
        };
        assert_eq!(with("tmpfs", "size=65536k").unwrap(), 64 << 20);
        assert_eq!(with("tmpfs", "size=2G").unwrap(), 2 << 30);
        assert_eq!(with("tmpfs", "mode=1777").unwrap(), 128 << 20);
        assert_eq!(with("bind", "size=1").unwrap(), 128 << 20);
        assert_eq!(rules.size(&config("7Mi"), dir.path()).unwrap(), 7 << 20);
        for wrong in [
            "size=50%",
            "size=0",
            "size=",
            "size=99999999999999999999",
            "size=9223372036854775807k",
        ] {
            let error = with("tmpfs", wrong).unwrap_err();
            assert!(error.message.contains("/dev/shm"), "{wrong}");
        }
    }
}
