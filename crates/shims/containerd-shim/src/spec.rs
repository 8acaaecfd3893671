//! The parts of a container's OCI specification that this program uses. The runtime reads all of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use orlop_fs::SMALL_FILE;
use serde::Deserialize;

use crate::error::{Result, failed};

/// Annotations with the group of a container: those of containerd's own shim and of its CRI service.
const GROUPS: [&str; 2] = [
    "io.containerd.runc.v2.group",
    "io.kubernetes.cri.sandbox-id",
];

/// The annotation with the role of a container in its pod.
const KIND: &str = "io.kubernetes.cri.container-type";

/// `config.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Spec {
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) hostname: String,
    pub(crate) process: Process,
    pub(crate) linux: Linux,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Process {
    pub(crate) args: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Linux {
    pub(crate) namespaces: Vec<Namespace>,
    pub(crate) cgroups_path: String,
    pub(crate) sysctl: BTreeMap<String, String>,
}

/// A namespace: the container's own, or another one by path.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Namespace {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) path: PathBuf,
}

impl Spec {
    pub(crate) fn read(bundle: &Path) -> Result<Self> {
        let path = bundle.join("config.json");
        let text = orlop_fs::read_file(&path, SMALL_FILE).map_err(failed("reading", &path))?;
        serde_json::from_slice(&text).map_err(failed("parsing", &path))
    }

    /// Returns the group of the container: its pod's id.
    pub(crate) fn group(&self) -> Option<&str> {
        let mut named = GROUPS.iter().filter_map(|name| self.annotations.get(*name));
        named.next().map(String::as_str)
    }

    pub(crate) fn namespace(&self, kind: &str) -> Option<&Namespace> {
        let mut namespaces = self.linux.namespaces.iter();
        namespaces.find(|namespace| namespace.kind == kind)
    }

    /// Whether the container only holds a pod's namespaces, which the keeper does without running pause. Not if the
    /// pod has a user namespace, which the keeper would need too.
    pub(crate) fn is_pause(&self) -> bool {
        let is_sandbox = self
            .annotations
            .get(KIND)
            .is_some_and(|kind| kind == "sandbox");
        let program = self.process.args.first().map(Path::new);
        let pauses = program
            .and_then(Path::file_name)
            .is_some_and(|name| name == "pause");
        is_sandbox && pauses && self.process.args.len() == 1 && self.namespace("user").is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::Spec;

    fn spec(text: &str) -> Spec {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn only_pause_is_done_without() {
        let pod = |args: &str, namespace: &str| {
            spec(&format!(
                r#"{{"annotations": {{"io.kubernetes.cri.container-type": "sandbox",
                "io.kubernetes.cri.sandbox-id": "p"}}, "process": {{"args": {args}}},
                "linux": {{"namespaces": [{{"type": "{namespace}"}}]}}}}"#
            ))
        };
        assert!(pod(r#"["/pause"]"#, "ipc").is_pause());
        assert!(!pod(r#"["/pause", "-v"]"#, "ipc").is_pause());
        assert!(!pod(r#"["/pause"]"#, "user").is_pause());
        assert!(!pod(r#"["/init"]"#, "ipc").is_pause());
        assert!(!spec(r#"{"process": {"args": ["/pause"]}}"#).is_pause());
        assert_eq!(pod("[]", "ipc").group(), Some("p"));
    }
}
