//! User id ranges of pods with their own user namespace (`hostUsers: false`).
//!
//! As with a kubelet, each such pod has a range of ids of its own, the same for users and groups,
//! that starts with root in the pod. The range is saved in the pod's directory in the kubelet's
//! format. It must not change: files in volumes and processes that outlive the manager use its ids.

mod node;
mod record;

use std::io;
use std::path::{Path, PathBuf};

use orlop_kubelet_rules::userns::{IdRange, Ranges};
use parking_lot::{Mutex, MutexGuard};
use thiserror::Error;

pub(crate) use node::ids_of_node;

/// Why a pod cannot get an id range.
#[derive(Debug, Error)]
pub(crate) enum UserNamespaceError {
    /// The node's ids or the settings are invalid.
    #[error("user namespaces: {0}")]
    Node(String),
    /// All ranges are in use.
    #[error("could not find an empty slot to allocate a user namespace: all {0} ranges are in use")]
    Full(u32),
    /// The saved range of a pod is unreadable or invalid.
    #[error(
        "user namespace of pod {uid:?}: {} {why}; stop the pod and remove its directory to \
         create it again",
        path.display()
    )]
    Record {
        /// The pod.
        uid: String,
        /// The file.
        path: PathBuf,
        /// The problem.
        why: String,
    },
    /// A file cannot be read or written.
    #[error("user namespace: {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// The id ranges of all pods.
#[derive(Debug)]
pub(crate) struct UserNamespaces {
    root: PathBuf,
    ranges: Mutex<Ranges>,
}

impl UserNamespaces {
    /// Loads the node's ids and the saved ranges of pods. Blocks.
    pub(crate) fn open(
        root: &Path,
        ids: IdRange,
        per_pod: u32,
        max_pods: u32,
    ) -> Result<Self, UserNamespaceError> {
        let mut ranges = Ranges::new(ids, per_pod, max_pods).map_err(UserNamespaceError::Node)?;
        let pods = root.join("pods");
        for entry in std::fs::read_dir(pods).into_iter().flatten().flatten() {
            let Ok(uid) = entry.file_name().into_string() else {
                continue;
            };
            if let Some(range) = record::read(root, &uid)? {
                ranges
                    .take(&uid, range)
                    .map_err(|why| record::wrong(root, &uid, why))?;
            }
        }
        Ok(Self {
            root: root.to_owned(),
            ranges: Mutex::new(ranges),
        })
    }

    /// Returns the range of a pod: the saved one, or a new one that is on disk when this returns.
    /// Blocks.
    pub(crate) fn get(&self, uid: &str) -> Result<IdRange, UserNamespaceError> {
        let mut ranges = self.ranges();
        if let Some(range) = record::read(&self.root, uid)? {
            ranges
                .take(uid, range)
                .map_err(|why| record::wrong(&self.root, uid, why))?;
            return Ok(range);
        }
        let from = rand::random();
        let range = ranges
            .give(uid, from)
            .ok_or_else(|| UserNamespaceError::Full(ranges.count()))?;
        record::write(&self.root, uid, range).inspect_err(|_| ranges.release(uid))?;
        Ok(range)
    }

    /// Releases the range of a pod that is gone with its files.
    pub(crate) fn release(&self, uid: &str) {
        self.ranges().release(uid);
    }

    fn ranges(&self) -> MutexGuard<'_, Ranges> {
        self.ranges.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: IdRange = IdRange {
        first: 65536,
        length: 65536 * 200,
    };

    #[test]
    fn a_pod_keeps_its_range_over_restarts_until_it_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let open = || UserNamespaces::open(dir.path(), NODE, 65536, 100).unwrap();
        let pod = |uid: &str| dir.path().join("pods").join(uid);
        for uid in ["a", "b"] {
            std::fs::create_dir_all(pod(uid)).unwrap();
        }
        let first = open();
        let (a, b) = (first.get("a").unwrap(), first.get("b").unwrap());
        assert_ne!(a, b);
        assert_eq!(first.get("a").unwrap(), a);
        let second = open();
        assert_eq!(second.get("b").unwrap(), b);
        assert_eq!(second.get("a").unwrap(), a);
        orlop_fs::remove_tree(&pod("a")).unwrap();
        second.release("a");
        assert_eq!(second.ranges().used(), 1);
    }

    #[test]
    fn a_record_that_cannot_be_true_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let pod = dir.path().join("pods/a");
        std::fs::create_dir_all(&pod).unwrap();
        for (text, word) in [
            ("{", "JSON"),
            (r#"{"uidMappings":[],"gidMappings":[]}"#, "one mapping"),
            (
                r#"{"uidMappings":[{"hostId":65536,"containerId":0,"length":65536}],
                    "gidMappings":[{"hostId":131072,"containerId":0,"length":65536}]}"#,
                "same",
            ),
            (
                r#"{"uidMappings":[{"hostId":65536,"containerId":1,"length":65536}],
                    "gidMappings":[{"hostId":65536,"containerId":1,"length":65536}]}"#,
                "id 0",
            ),
            (
                r#"{"uidMappings":[{"hostId":65536,"containerId":0,"length":10}],
                    "gidMappings":[{"hostId":65536,"containerId":0,"length":10}]}"#,
                "length",
            ),
        ] {
            std::fs::write(pod.join("userns"), text).unwrap();
            let error = UserNamespaces::open(dir.path(), NODE, 65536, 100).unwrap_err();
            let error = error.to_string();
            assert!(
                error.contains(word) && error.contains("pods/a/userns"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_pod_that_cannot_be_written_down_has_no_range() {
        let dir = tempfile::tempdir().unwrap();
        let ids = UserNamespaces::open(dir.path(), NODE, 65536, 100).unwrap();
        assert!(ids.get("without-directory").is_err());
        assert_eq!(ids.ranges().used(), 0);
    }
}
