//! The ids of pods that have a user namespace of their own (`hostUsers: false`).
//!
//! As under a kubelet each such pod has a range of ids that no other pod of the node has, as many
//! user as group ids, which begin with root in the pod. Which range it is stands in the pod's
//! directory, in the kubelet's format: the ids of files that a pod leaves in its volumes, and of
//! processes that outlive the manager, mean something only as long as the range is the same.

mod node;
mod record;

use std::io;
use std::path::{Path, PathBuf};

use orlop_kubelet_rules::userns::{IdRange, Ranges};
use parking_lot::{Mutex, MutexGuard};
use thiserror::Error;

pub(crate) use node::ids_of_node;

/// Why pods cannot have ids of their own.
#[derive(Debug, Error)]
pub(crate) enum UserNamespaceError {
    /// The node's ids, or the setting, do not fit.
    #[error("user namespaces: {0}")]
    Node(String),
    /// All ranges are given out.
    #[error("could not find an empty slot to allocate a user namespace: all {0} ranges are in use")]
    Full(u32),
    /// What is written down of a pod cannot be read, or not be true.
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
        /// What is wrong with it.
        why: String,
    },
    /// A file cannot be read or written.
    #[error("user namespace: {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Which ids each pod has.
#[derive(Debug)]
pub(crate) struct UserNamespaces {
    root: PathBuf,
    ranges: Mutex<Ranges>,
}

impl UserNamespaces {
    /// Takes the node's ids, and the ranges that pods have already. Blocks.
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

    /// The range of a pod: the one it has, or a new one that is on disk when this returns. Blocks.
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

    /// The pod is gone, and its files are.
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
