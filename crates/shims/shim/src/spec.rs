//! The OCI specification of a container, and its changes for a shim.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::error::{Error, Result};

/// Maximum size of a specification.
const LARGEST: u64 = 4 << 20;

const SANDBOX_ID: &str = "io.kubernetes.cri.sandbox-id";
const CONTAINER_TYPE: &str = "io.kubernetes.cri.container-type";
const IMAGE_NAME: &str = "io.kubernetes.cri.image-name";
/// Annotations about the container, not about its pod.
const OF_CONTAINER: [&str; 2] = ["io.kubernetes.cri.container-name", IMAGE_NAME];

/// A `config.json`.
#[derive(Clone, Debug)]
pub(crate) struct Spec(Value);

impl Spec {
    pub(crate) fn read(bundle: &Path) -> Result<Self> {
        let path = bundle.join("config.json");
        let text = Self::text(bundle)?;
        let spec = serde_json::from_slice(&text)
            .map_err(|error| Error::Failed(format!("reading {}: {error}", path.display())))?;
        Ok(Self(spec))
    }

    pub(crate) fn text(bundle: &Path) -> Result<Vec<u8>> {
        read(&bundle.join("config.json"))
    }

    pub(crate) fn write(&self, bundle: &Path) -> Result<()> {
        let path = bundle.join("config.json");
        // The environment may contain secrets.
        let file = File::options()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(&path);
        file.and_then(|mut file| file.write_all(self.0.to_string().as_bytes()))
            .map_err(Error::file("writing", &path))
    }

    /// Returns the pod that the container belongs to, if it is specified.
    pub(crate) fn pod(&self) -> Option<&str> {
        self.0["annotations"][SANDBOX_ID].as_str()
    }

    /// Whether it is the pod's own task and not one of its containers.
    pub(crate) fn is_sandbox(&self) -> bool {
        self.0["annotations"][CONTAINER_TYPE] == "sandbox"
    }

    pub(crate) fn terminal(&self) -> bool {
        self.0["process"]["terminal"].as_bool().unwrap_or_default()
    }

    /// Returns the path of the container's root filesystem.
    pub(crate) fn root(&self, bundle: &Path) -> PathBuf {
        bundle.join(self.0["root"]["path"].as_str().unwrap_or("rootfs"))
    }

    /// Sets the root filesystem to where the shim mounts it.
    pub(crate) fn with_own_root(mut self) -> Self {
        self.0["root"]["path"] = "rootfs".into();
        self
    }

    /// Sets the pod of the container to `pod`.
    pub(crate) fn in_pod(mut self, pod: &str) -> Self {
        self.0["annotations"][CONTAINER_TYPE] = "container".into();
        self.0["annotations"][SANDBOX_ID] = pod.into();
        self
    }

    /// Returns the name of its image.
    pub(crate) fn image(&self) -> Option<&str> {
        self.0["annotations"][IMAGE_NAME].as_str()
    }

    pub(crate) fn annotations(&self) -> Vec<(String, String)> {
        let all = self.0["annotations"].as_object().into_iter().flatten();
        all.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
            .collect()
    }

    /// Returns the path of the namespace of this kind that it joins.
    pub(crate) fn namespace(&self, kind: &str) -> Option<PathBuf> {
        let namespaces = self.0["linux"]["namespaces"].as_array()?;
        let mut same = namespaces
            .iter()
            .filter(|namespace| namespace["type"] == kind);
        let path = same.next()?["path"]
            .as_str()
            .filter(|path| !path.is_empty());
        path.map(PathBuf::from)
    }

    /// Whether it has a namespace of this kind, its own or a joined one.
    pub(crate) fn has_namespace(&self, kind: &str) -> bool {
        let namespaces = self.0["linux"]["namespaces"].as_array();
        let mut namespaces = namespaces.into_iter().flatten();
        namespaces.any(|namespace| namespace["type"] == kind)
    }

    /// Sets the namespace of this kind to this path, or to the surrounding one.
    pub(crate) fn with_namespace(mut self, kind: &str, path: Option<&Path>) -> Self {
        let namespaces = self.0.pointer_mut("/linux/namespaces");
        if let Some(namespaces) = namespaces.and_then(Value::as_array_mut) {
            namespaces.retain(|namespace| namespace["type"] != kind);
            namespaces.extend(path.map(|path| json!({"type": kind, "path": path})));
        }
        self
    }

    /// Returns its process for changes.
    pub(crate) fn process(&mut self) -> Option<&mut Value> {
        self.0.get_mut("process")
    }

    pub(crate) fn with_hostname(mut self, name: String) -> Self {
        self.0["hostname"] = name.into();
        self
    }

    /// Sets the limits of the whole pod on the pod's own task.
    pub(crate) fn with_limits_of_pod(mut self) -> Self {
        let told = |name: &str| {
            let value = self.0["annotations"][format!("io.kubernetes.cri.{name}")].as_str();
            value
                .and_then(|value| value.parse::<i64>().ok())
                .filter(|value| *value > 0)
        };
        let mut cpu = Map::new();
        for (name, limit) in [
            ("sandbox-cpu-period", "period"),
            ("sandbox-cpu-quota", "quota"),
            ("sandbox-cpu-shares", "shares"),
        ] {
            cpu.extend(told(name).map(|value| (limit.to_owned(), Value::from(value))));
        }
        let memory = told("sandbox-memory");
        if !cpu.is_empty() {
            self.0["linux"]["resources"]["cpu"] = cpu.into();
        }
        if let Some(limit) = memory {
            self.0["linux"]["resources"]["memory"] = json!({"limit": limit});
        }
        self
    }

    /// Derives the specification of the pod's own task, which holds a virtual machine or another sandbox.
    pub(crate) fn of_pod(&self, pod: &str) -> Self {
        let linux = &self.0["linux"];
        let shared = |kind: &str| {
            let namespaces = linux["namespaces"].as_array().into_iter().flatten();
            let mut same = namespaces.filter(|namespace| namespace["type"] == kind);
            same.next().cloned()
        };
        let mut namespaces = vec![json!({"type": "pid"}), json!({"type": "mount"})];
        namespaces.extend(["network", "ipc", "uts"].into_iter().filter_map(shared));
        let mut annotations: Map<String, Value> = self.0["annotations"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        annotations.retain(|name, _| !OF_CONTAINER.contains(&name.as_str()));
        annotations.insert(CONTAINER_TYPE.into(), "sandbox".into());
        annotations.insert(SANDBOX_ID.into(), pod.into());
        let mut spec = json!({
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": 0, "gid": 0},
                "args": ["/pause"],
                "env": ["PATH=/"],
                "cwd": "/",
                "noNewPrivileges": true,
                "capabilities": {},
            },
            "root": {"path": "rootfs", "readonly": true},
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc",
                 "options": ["nosuid", "noexec", "nodev"]},
                {"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
                 "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]},
            ],
            "annotations": annotations,
            "linux": {"namespaces": namespaces, "resources": {}},
        });
        if let Some(path) = linux["cgroupsPath"].as_str() {
            spec["linux"]["cgroupsPath"] = beside(path, pod).into();
        }
        Self(spec)
    }
}

/// Returns the cgroup `pod` next to that of a container, in the format of either driver.
fn beside(path: &str, pod: &str) -> String {
    let at = path.rfind([':', '/']).map_or(0, |at| at + 1);
    format!("{}{pod}", &path[..at])
}

/// Reads a file of another program, with a size limit.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    orlop_fs::read_file(path, LARGEST).map_err(Error::file("reading", path))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Spec, beside};

    #[test]
    fn a_pods_own_task_shares_its_namespaces_and_nothing_else() {
        let container = Spec(json!({
            "process": {"terminal": true, "args": ["sh"], "env": ["SECRET=1"]},
            "root": {"path": "/elsewhere"},
            "annotations": {
                "io.kubernetes.cri.sandbox-id": "p1",
                "io.kubernetes.cri.container-type": "container",
                "io.kubernetes.cri.container-name": "web",
                "io.katacontainers.config.hypervisor.default_vcpus": "2",
            },
            "linux": {
                "cgroupsPath": "/kubepods/pod1/c1",
                "namespaces": [
                    {"type": "network", "path": "/proc/7/ns/net"},
                    {"type": "cgroup"}, {"type": "mount"}, {"type": "pid"},
                ],
                "resources": {"memory": {"limit": 1}},
            },
        }));
        assert_eq!(container.pod(), Some("p1"));
        assert!(container.terminal());
        let pod = container.of_pod("p1").0;
        assert_eq!(pod["linux"]["cgroupsPath"], "/kubepods/pod1/p1");
        assert_eq!(
            pod["linux"]["namespaces"],
            json!([{"type": "pid"}, {"type": "mount"}, {"type": "network", "path": "/proc/7/ns/net"}])
        );
        assert_eq!(
            pod["annotations"],
            json!({
                "io.kubernetes.cri.sandbox-id": "p1",
                "io.kubernetes.cri.container-type": "sandbox",
                "io.katacontainers.config.hypervisor.default_vcpus": "2",
            })
        );
        assert_eq!(pod["linux"]["resources"], json!({}));
        assert!(!pod.to_string().contains("SECRET"));
        assert_eq!(container.with_own_root().0["root"]["path"], "rootfs");
    }

    #[test]
    fn a_pods_cgroup_stands_beside_its_containers() {
        assert_eq!(beside("/a/b/c", "p"), "/a/b/p");
        assert_eq!(beside("a.slice:cri:c", "p"), "a.slice:cri:p");
        assert_eq!(beside("c", "p"), "p");
    }
}
