//! Checkpoints of pods for the manager's restart.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orlop_fs::Outlives;
use orlop_kubelet_rules::Timestamp;
use orlop_kubelet_rules::actions::ActuatedResources;
use orlop_kubelet_rules::pod::Resources;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::pod_input::{Objects, PodInput};

/// The saved state of a pod. Running containers are found in the runtime. Secrets are never
/// written: the sources provide them again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    version: u32,
    pub(crate) source: String,
    pub(crate) manifest: Value,
    pub(crate) start_time: i64,
    /// The last resources given to running containers, as in their manifests.
    #[serde(default)]
    pub(crate) actuated: BTreeMap<String, Value>,
    /// The final status of a pod that has ended.
    #[serde(default)]
    pub(crate) ended: Option<Ended>,
}

/// The result of a pod that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) failed: bool,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) status: Value,
}

const VERSION: u32 = 1;
/// Size limit of a checkpoint in bytes: a manifest may have 10 MiB, and is larger as JSON.
const MAX_SIZE: u64 = 64 << 20;

impl Checkpoint {
    pub(crate) fn new(input: &PodInput, start_time: Timestamp) -> Self {
        Self {
            version: VERSION,
            source: input.source.clone(),
            manifest: (*input.manifest).clone(),
            start_time: start_time.0,
            actuated: BTreeMap::new(),
            ended: None,
        }
    }

    /// Writes the checkpoint atomically: a crash leaves the old file or the new one. Blocks.
    pub(crate) fn write(&self, root: &Path, uid: &str) -> io::Result<()> {
        let path = path(root, uid);
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        orlop_fs::write_file(&path, 0o600, Outlives::PowerCut, &serde_json::to_vec(self)?)
    }

    /// Removes the checkpoint of a pod. Blocks.
    pub(crate) fn remove(root: &Path, uid: &str) -> io::Result<()> {
        match fs::remove_file(path(root, uid)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    pub(crate) fn read(root: &Path, uid: &str) -> Option<Self> {
        read(&path(root, uid))
    }

    /// Returns the pod as its source defined it.
    pub(crate) fn input(&self) -> Option<PodInput> {
        PodInput::new(
            &self.source,
            self.manifest.clone(),
            Arc::new(Objects::default()),
        )
        .ok()
    }

    pub(crate) fn actuated(&self) -> ActuatedResources {
        self.actuated
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), Resources::deserialize(value).ok()?)))
            .collect()
    }
}

/// Loads the pods that the previous manager ran. Blocks. An unreadable checkpoint is skipped: its
/// pod can still be found by its containers' labels.
pub(crate) fn load_all(root: &Path) -> Vec<PodInput> {
    let entries = fs::read_dir(root.join("checkpoints"));
    let mut inputs = Vec::new();
    for entry in entries.into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|e| e != "json") {
            continue;
        }
        match read(&path).and_then(|checkpoint| checkpoint.input()) {
            Some(input) => inputs.push(input),
            None => {
                tracing::warn!(path = %path.display(), "skipped a pod checkpoint that cannot be read");
            }
        }
    }
    inputs
}

fn read(path: &Path) -> Option<Checkpoint> {
    let text = match orlop_fs::read_file(path, MAX_SIZE) {
        Ok(text) => text,
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!(path = %path.display(), %error, "cannot read a pod checkpoint");
            }
            return None;
        }
    };
    let checkpoint: Checkpoint = serde_json::from_slice(&text).ok()?;
    (checkpoint.version == VERSION).then_some(checkpoint)
}

fn path(root: &Path, uid: &str) -> PathBuf {
    root.join("checkpoints").join(format!("{uid}.json"))
}

#[cfg(test)]
mod tests {
    use orlop_testkit::said_of_hostile_files;

    use super::*;

    #[test]
    fn what_is_no_checkpoint_is_passed_over() {
        let said = said_of_hostile_files("checkpoints/u.json", |path| {
            let root = path.parent().and_then(Path::parent).unwrap();
            Checkpoint::read(root, "u").is_none().to_string()
        });
        assert_eq!(said, ["true", "true"]);
    }
}
