//! The directory of a pod's server and keeper. Its name is derived from the names that containerd uses for the pod.

use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use orlop_fs::SMALL_FILE;
use orlop_ttrpc::Status;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{Result, failed};
use crate::runtime::Runtime;

/// The root of the directories; the keeper needs a tmpfs.
const ROOT: &str = "/run/orlop/containerd";

/// Number of bytes of the hash in a directory's name.
const NAME: usize = 16;

/// The record of a created container, for a cleanup by another process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Made {
    pub(crate) bundle: PathBuf,
    pub(crate) runtime: Runtime,
    /// The container's cgroup, unless systemd manages it.
    pub(crate) cgroup: String,
}

impl Made {
    /// Removes the rest of a container whose creation or deletion was interrupted.
    pub(crate) fn end_leftover(&self, id: &str) {
        self.runtime.delete_leftover(id);
        // If the runtime was killed before it recorded the container, it leaves the cgroup behind.
        crate::cgroup::end(&self.cgroup);
    }
}

/// A pod's directory.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    dir: PathBuf,
}

impl Place {
    /// Returns the directory of this pod in a namespace of the containerd at `address`.
    pub(crate) fn of(address: &str, namespace: &str, group: &str) -> Self {
        let mut hash = Sha256::new();
        for word in [address, namespace, group] {
            hash.update(word);
            hash.update([0]);
        }
        let name = orlop_text::hex::encode(&hash.finalize()[..NAME]);
        Self {
            dir: Path::new(ROOT).join(name),
        }
    }

    /// Returns and locks the directories without a server or other user, whose cleanup process died too.
    pub(crate) fn abandoned() -> Vec<(Self, File)> {
        let entries = fs::read_dir(ROOT).into_iter().flatten().flatten();
        let places = entries.map(|entry| Self { dir: entry.path() });
        let places = places.filter(|place| place.dir.extension().is_none());
        let locked = places.filter_map(|place| {
            let lock = File::options()
                .append(true)
                .open(place.dir.with_extension("lock"));
            let lock = lock.ok()?;
            lock.try_lock().ok()?;
            (place.dir.is_dir() && !place.is_served()).then_some((place, lock))
        });
        locked.collect()
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the path of the task server's socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.join("shim.sock")
    }

    /// Returns the keeper's directory.
    pub(crate) fn keeper(&self) -> PathBuf {
        self.dir.join("keeper")
    }

    /// Returns the directory for files of exec commands.
    pub(crate) fn commands(&self) -> PathBuf {
        self.dir.join("exec")
    }

    /// Returns the directory with the records of containers, which the pod's cleanup reads.
    fn containers(&self) -> PathBuf {
        self.dir.join("containers")
    }

    /// Records a container before it is created.
    pub(crate) fn note(&self, id: &str, made: &Made) -> Result<()> {
        let path = self.containers().join(id);
        let note = serde_json::to_vec(made).map_err(failed("writing", &path))?;
        fs::write(&path, note).map_err(failed("writing", &path))
    }

    /// Removes the record of a container that is completely removed.
    pub(crate) fn forget(&self, id: &str) {
        let _ = fs::remove_file(self.containers().join(id));
    }

    /// Returns the recorded containers.
    pub(crate) fn noted(&self) -> Vec<(String, Made)> {
        let entries = fs::read_dir(self.containers())
            .into_iter()
            .flatten()
            .flatten();
        let noted = entries.filter_map(|entry| {
            let note = orlop_fs::read_file(entry.path(), SMALL_FILE).ok()?;
            let made = serde_json::from_slice(&note).ok()?;
            Some((entry.file_name().into_string().ok()?, made))
        });
        noted.collect()
    }

    /// Returns the directory of files that the pod's containers share.
    pub(crate) fn shared(&self) -> PathBuf {
        self.dir.join("pod")
    }

    /// Returns the path of the file that names the pod's cgroup.
    pub(crate) fn cgroup_note(&self) -> PathBuf {
        self.dir.join("cgroup")
    }

    pub(crate) fn make(&self) -> Result<()> {
        for dir in [
            self.dir.clone(),
            self.keeper(),
            self.commands(),
            self.containers(),
        ] {
            make_private(&dir)?;
        }
        Ok(())
    }

    /// Takes the lock for starting, ending or removing the contents.
    pub(crate) fn lock(&self) -> Result<File> {
        // Next to the directory, not in it: the directory is removed under the lock.
        let path = self.dir.with_extension("lock");
        make_private(Path::new(ROOT))?;
        loop {
            let file = File::options().create(true).append(true).open(&path);
            let file = file.map_err(failed("creating", &path))?;
            file.lock().map_err(failed("locking", &path))?;
            // The previous holder may have removed the lock file.
            let held = file
                .metadata()
                .map_err(failed("reading the attributes of", &path))?;
            if fs::metadata(&path).is_ok_and(|named| named.ino() == held.ino()) {
                return Ok(file);
            }
        }
    }

    /// Waits for a keeper that is being set up here; while the lock is held, no new one can start.
    pub(crate) fn lock_keeper(&self) -> Option<File> {
        let dir = File::open(self.keeper()).ok()?;
        dir.lock().ok().map(|()| dir)
    }

    /// Whether a server is running.
    pub(crate) fn is_served(&self) -> bool {
        UnixStream::connect(self.socket()).is_ok()
    }

    /// Removes the directory. No process may use it any more.
    pub(crate) fn remove(&self) -> Result<()> {
        orlop_fs::remove_tree(&self.dir).map_err(failed("removing", &self.dir))?;
        let lock = self.dir.with_extension("lock");
        // A waiting process creates a new lock file.
        let _ = fs::remove_file(lock);
        Ok(())
    }
}

pub(crate) fn make_private(dir: &Path) -> Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(failed("creating", dir))
}

/// Checks an id, so that it cannot name another file.
pub(crate) fn checked(id: &str) -> Result<()> {
    crate::arguments::check_name(id)
        .map_err(|problem| Status::new(orlop_ttrpc::code::INVALID_ARGUMENT, problem))
}

#[cfg(test)]
mod tests {
    use super::Place;

    #[test]
    fn names_do_not_run_into_each_other() {
        let places = [
            Place::of("a", "b", "c"),
            Place::of("ab", "", "c"),
            Place::of("a", "bc", ""),
            Place::of("a", "b", "d"),
        ];
        for (at, place) in places.iter().enumerate() {
            assert!(place.socket().as_os_str().len() < 100);
            assert!(places[..at].iter().all(|other| other.dir() != place.dir()));
        }
        assert_eq!(Place::of("a", "b", "c").dir(), places[0].dir());
    }
}
