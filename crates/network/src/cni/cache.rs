//! Cache of CNI results on disk, in libcni's layout.
//!
//! Other tools find the results there, and a later DEL passes the result of ADD.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::args::RuntimeArgs;
use super::conf::NetworkConf;
use super::read_bounded::read_bounded;

/// The `results` directory of a CNI cache directory.
#[derive(Debug, Clone)]
pub struct Cache {
    dir: PathBuf,
}

/// The file format of a cached attachment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cached {
    kind: String,
    container_id: String,
    config: String,
    if_name: String,
    network_name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    netns: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cni_args: Option<Vec<(String, String)>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    capability_args: Option<BTreeMap<String, Value>>,
    #[serde(default)]
    result: Value,
}

/// An attachment read from the cache.
#[derive(Debug, Clone, PartialEq)]
pub struct CachedAttachment {
    /// The container ID of the pod.
    pub container_id: String,
    /// The name of its interface.
    pub if_name: String,
    /// Its network namespace, if recorded.
    pub netns: String,
    /// The network's configuration at the time of ADD.
    pub network: NetworkConf,
    /// The arguments passed to the plugins.
    pub args: RuntimeArgs,
    /// The plugins' result.
    pub result: Value,
}

const KIND: &str = "cniCacheV1";

impl Cache {
    /// Returns the cache below `cache_dir`.
    pub fn new(cache_dir: &Path) -> Self {
        Self {
            dir: cache_dir.join("results"),
        }
    }

    /// Writes an attachment to the cache.
    pub fn put(
        &self,
        network: &NetworkConf,
        container_id: &str,
        if_name: &str,
        netns: &str,
        args: &RuntimeArgs,
        result: &Value,
    ) -> io::Result<()> {
        let cached = Cached {
            kind: KIND.to_owned(),
            container_id: container_id.to_owned(),
            config: STANDARD.encode(network.to_list().to_string()),
            if_name: if_name.to_owned(),
            network_name: network.name.clone(),
            netns: netns.to_owned(),
            cni_args: Some(args.cni_args.clone()),
            capability_args: Some(args.capability_args.clone()),
            result: result.clone(),
        };
        let bytes = serde_json::to_vec(&cached)?;
        let path = self.path(&network.name, container_id, if_name);
        let write = || {
            // Written in place, as libcni does: a torn file counts as absent.
            let mut file = std::fs::File::create(&path)?;
            set_private(&file)?;
            file.write_all(&bytes)
        };
        match write() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                std::fs::create_dir_all(&self.dir)?;
                write()
            }
            done => done,
        }
    }

    /// Reads an attachment; returns `None` if it is absent or torn.
    pub fn get(
        &self,
        network: &str,
        container_id: &str,
        if_name: &str,
    ) -> Option<CachedAttachment> {
        read(&self.path(network, container_id, if_name))
    }

    /// Removes an attachment from the cache.
    pub fn remove(&self, network: &str, container_id: &str, if_name: &str) -> io::Result<()> {
        match std::fs::remove_file(self.path(network, container_id, if_name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    /// Lists all attachments except torn ones.
    pub fn list(&self) -> io::Result<Vec<CachedAttachment>> {
        let entries = match std::fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut attachments = Vec::new();
        for entry in entries {
            match read_bounded(&entry?.path()) {
                Ok(bytes) => attachments.extend(parse(&bytes)),
                Err(error) if is_a_want(&error) => return Err(error),
                // Other tools write to this directory, too.
                Err(_) => {}
            }
        }
        Ok(attachments)
    }

    fn path(&self, network: &str, container_id: &str, if_name: &str) -> PathBuf {
        self.dir.join(format!("{network}-{container_id}-{if_name}"))
    }
}

/// Reports whether a file could not be read because the system lacks a resource, whatever its contents.
fn is_a_want(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(
        errno,
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO)
    )
}

fn read(path: &Path) -> Option<CachedAttachment> {
    parse(&read_bounded(path).ok()?)
}

fn parse(bytes: &[u8]) -> Option<CachedAttachment> {
    let cached: Cached = serde_json::from_slice(bytes).ok()?;
    if cached.kind != KIND {
        return None;
    }
    let config = STANDARD.decode(&cached.config).ok()?;
    Some(CachedAttachment {
        container_id: cached.container_id,
        if_name: cached.if_name,
        netns: cached.netns,
        network: NetworkConf::from_bytes(&config, None).ok()?,
        args: RuntimeArgs {
            cni_args: cached.cni_args.unwrap_or_default(),
            capability_args: cached.capability_args.unwrap_or_default(),
        },
        result: cached.result,
    })
}

fn set_private(file: &std::fs::File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_put_is_found_and_torn_files_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path());
        let network = NetworkConf::from_list(
            json!({"name":"n","cniVersion":"1.0.0","plugins":[{"type":"x"}]}),
        )
        .unwrap();
        let args = RuntimeArgs {
            cni_args: vec![("A".into(), "b".into())],
            capability_args: BTreeMap::from([("mac".to_owned(), json!("m"))]),
        };
        cache
            .put(&network, "pod1", "eth0", "/ns", &args, &json!({"ips": []}))
            .unwrap();

        let file = dir.path().join("results/n-pod1-eth0");
        let raw: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        assert_eq!(raw["kind"], "cniCacheV1");
        assert_eq!(raw["cniArgs"], json!([["A", "b"]]));
        assert_eq!(raw["networkName"], "n");

        let back = cache.get("n", "pod1", "eth0").unwrap();
        assert_eq!((&back.network.name, &back.args), (&network.name, &args));
        assert_eq!(cache.list().unwrap().len(), 1);

        std::fs::write(&file, "{\"kind\":\"cniCac").unwrap();
        assert_eq!(cache.get("n", "pod1", "eth0"), None);
        cache.remove("n", "pod1", "eth0").unwrap();
        cache.remove("n", "pod1", "eth0").unwrap();
    }
}
