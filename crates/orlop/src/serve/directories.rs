//! The directories of one daemon, and the check that pods are in the configured one.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use orlop_fs::Outlives;

use super::format;
use super::lock::Lock;
use crate::config::Config;
use crate::config::values::Backend;

/// File in the root directory with the location of the pods, if they are elsewhere.
const ELSEWHERE: &str = "containers-root";

/// Subdirectory with the records and writable layers of the pods.
const PODS: &str = "pods";

/// Locks on the directories, held until dropped.
#[derive(Debug)]
pub(super) struct Directories {
    _locks: Vec<Lock>,
}

impl Directories {
    /// Locks the directories. Fails if another daemon uses them, if their format is unknown, or if the existing pods
    /// are in a different directory.
    pub(super) fn take(config: &Config) -> anyhow::Result<Self> {
        let root = &config.daemon.root;
        let mut locks = vec![Lock::take(root, "root")?];
        format::check(root)?;
        if config.daemon.backend == Backend::Native {
            let elsewhere = config.containers.root.as_ref();
            let pods: &Path = elsewhere.map_or(root, |path| path);
            if pods != &**root {
                locks.push(Lock::take(pods, "containers.root")?);
            }
            check_pods(root, pods)?;
        }
        locks.push(Lock::take(&config.daemon.state, "state")?);
        Ok(Self { _locks: locks })
    }
}

/// Fails if the pods are in a directory other than `wanted`, else records that directory.
fn check_pods(root: &Path, wanted: &Path) -> anyhow::Result<()> {
    let note = root.join(ELSEWHERE);
    let last = match orlop_fs::read_text(&note, orlop_fs::SMALL_FILE) {
        Ok(text) => PathBuf::from(text.trim_end_matches('\n')),
        Err(error) if error.kind() == io::ErrorKind::NotFound => root.to_owned(),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", note.display()));
        }
    };
    let kept = kept(&last)?;
    if last != root && kept.is_none() {
        bail!(
            "the pod directory {} is missing; mount its disk or, if the disk is lost, remove {}",
            last.join(PODS).display(),
            note.display(),
        );
    }
    if last == wanted {
        return Ok(());
    }
    match kept {
        Some(count) if count > 0 => bail!(
            "containers.root was changed to {}, but pods ({count}) still have their records and \
             files in {}; set it back to {}, stop the kubelet, remove the pods (`orlop rmp --all \
             --force`), and then change it",
            wanted.display(),
            last.join(PODS).display(),
            last.display(),
        ),
        _ => {}
    }
    let doing = || format!("cannot use {} for pods", wanted.display());
    // Created now, so that it is present when it is checked later.
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(wanted.join(PODS))
        .with_context(doing)?;
    if wanted == root {
        return fs::remove_file(&note).with_context(doing);
    }
    let Some(path) = wanted.to_str().filter(|path| !path.contains('\n')) else {
        bail!(
            "{}: the path must be valid UTF-8 without line breaks",
            doing()
        );
    };
    let text = format!("{path}\n");
    orlop_fs::write_file(&note, 0o644, Outlives::PowerCut, text.as_bytes()).with_context(doing)
}

/// Returns the number of pods in a directory, or `None` if there never were any.
fn kept(root: &Path) -> anyhow::Result<Option<usize>> {
    let dir = root.join(PODS);
    match fs::read_dir(&dir) {
        Ok(entries) => Ok(Some(entries.count())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", dir.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_not_left_behind_where_nobody_looks() {
        let dir = tempfile::tempdir().unwrap();
        let [root, fast, other] = ["root", "fast", "other"].map(|name| {
            let path = dir.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        });
        let refused = |wanted: &Path| check_pods(&root, wanted).unwrap_err().to_string();
        check_pods(&root, &root).unwrap();
        fs::create_dir_all(root.join("pods/one")).unwrap();
        let error = refused(&fast);
        assert!(
            error.contains("pods (1) still have their records and files in"),
            "{error}"
        );
        assert!(
            error.contains(&format!("set it back to {}", root.display())),
            "{error}"
        );
        check_pods(&root, &root).unwrap();

        fs::remove_dir(root.join("pods/one")).unwrap();
        check_pods(&root, &fast).unwrap();
        check_pods(&root, &fast).unwrap();
        fs::create_dir(fast.join("pods/two")).unwrap();
        for wanted in [&root, &other] {
            let error = refused(wanted);
            assert!(
                error.contains(&*fast.join(PODS).to_string_lossy()),
                "{error}"
            );
        }
        assert!(!other.join(PODS).exists());

        // A disk that is not mounted is empty.
        let away = dir.path().join("away");
        fs::rename(&fast, &away).unwrap();
        fs::create_dir(&fast).unwrap();
        for wanted in [&fast, &root, &other] {
            let error = refused(wanted);
            assert!(error.contains("mount its disk"), "{error}");
        }
        fs::remove_dir(&fast).unwrap();
        fs::rename(&away, &fast).unwrap();
        check_pods(&root, &fast).unwrap();
        fs::remove_dir(fast.join("pods/two")).unwrap();
        check_pods(&root, &root).unwrap();
        assert!(!root.join(ELSEWHERE).exists());
        check_pods(&root, &other).unwrap();
    }
}
