//! Symbolic links to logs, with the names that log collectors expect.

use std::path::{Path, PathBuf};

use orlop_kubelet_rules::log_path::symlink_name;
use orlop_kubelet_rules::pod::Pod;

/// Symbolic links to container logs, with the names that log collectors expect.
#[derive(Debug, Clone)]
pub(crate) struct LogLinks {
    dir: Option<PathBuf>,
}

impl LogLinks {
    /// Creates the directory. Blocks. If this fails, pods have no links.
    pub(crate) fn new(dir: Option<&Path>) -> Self {
        let dir = dir.filter(|dir| match std::fs::create_dir_all(dir) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(dir = %dir.display(), %error, "cannot create the directory for links to container logs");
                false
            }
        });
        Self {
            dir: dir.map(Path::to_owned),
        }
    }

    /// Adds a link for a container, if its log exists.
    pub(crate) async fn add(&self, pod: &Pod, container: &str, id: &str, log: &str) {
        let Some(dir) = &self.dir else { return };
        let link = dir.join(symlink_name(pod, container, id));
        let log = PathBuf::from(log);
        let add = move || {
            if log.exists() {
                let _ = std::fs::remove_file(&link);
                let made = std::os::unix::fs::symlink(&log, &link);
                if let Err(error) = made {
                    tracing::warn!(link = %link.display(), %error, "cannot create the link to a container log");
                }
            }
        };
        let _ = orlop_pool::blocking(add).await;
    }

    /// Removes a pod's links.
    pub(crate) async fn remove_pod(&self, pod: &Pod) {
        let Some(dir) = self.dir.clone() else { return };
        let prefix = format!("{}_{}_", pod.metadata.name, pod.metadata.namespace);
        self.sweep(dir, move |name| name.starts_with(&prefix)).await;
    }

    /// Removes links whose targets are gone.
    pub(crate) async fn remove_dead(&self) {
        let Some(dir) = self.dir.clone() else { return };
        self.sweep(dir, |_| true).await;
    }

    /// Removes links that match and whose targets are gone.
    async fn sweep(&self, dir: PathBuf, which: impl Fn(&str) -> bool + Send + 'static) {
        let sweep = move || {
            for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
                let path = entry.path();
                let named = entry.file_name().to_str().is_some_and(&which);
                if named && path.is_symlink() && !path.exists() {
                    let _ = std::fs::remove_file(path);
                }
            }
        };
        let _ = orlop_pool::blocking(sweep).await;
    }
}
