//! Directory of the state, below the runtime's `--root`.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use orlop_fs::Outlives;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::mounts;
use crate::task::Tasks;

/// Maximum length of a pod's id in socket paths, which are limited to 107 bytes.
const SHORT: usize = 24;

/// How long the end of a pod waits for the lock.
const LOCK_LIMIT: Duration = Duration::from_secs(30);

/// The directory of a runtime.
#[derive(Clone, Debug)]
pub(crate) struct StateDir(PathBuf);

impl StateDir {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self(root)
    }

    pub(crate) fn pod(&self, id: &str) -> Result<PodDir> {
        let short = checked(id)?.get(..SHORT).unwrap_or(id);
        Ok(PodDir {
            id: id.to_owned(),
            dir: self.0.join("pods").join(id),
            sockets: self.0.join("sockets").join(short),
        })
    }

    /// Returns the pod of a container that names none and has one of its own. Some runtimes accept a prefix of an id,
    /// so neither id may be a prefix of the other.
    pub(crate) fn pod_of_one(&self, task: &TaskDir) -> Result<PodDir> {
        self.pod(&format!("p.{}", task.id))
    }

    pub(crate) fn task(&self, id: &str) -> Result<TaskDir> {
        Ok(TaskDir {
            id: checked(id)?.to_owned(),
            dir: self.0.join("tasks").join(id),
        })
    }

    /// Connects to the shim of a container.
    pub(crate) fn shim_of(&self, id: &str) -> Result<Tasks> {
        self.task(id)?.tasks(self)
    }

    /// Returns a pod's containers that are not deleted.
    pub(crate) fn tasks_of(&self, pod: &str) -> Vec<TaskDir> {
        let entries = fs::read_dir(self.0.join("tasks"));
        let entries = entries.into_iter().flatten().filter_map(Result::ok);
        let tasks = entries.filter_map(|entry| self.task(entry.file_name().to_str()?).ok());
        tasks
            .filter(|task| task.pod(self).is_ok_and(|of| of.id == pod))
            .collect()
    }
}

/// The directory of a pod and its shim.
#[derive(Clone, Debug)]
pub(crate) struct PodDir {
    pub(crate) id: String,
    pub(crate) dir: PathBuf,
    sockets: PathBuf,
}

impl PodDir {
    pub(crate) fn make(&self) -> Result<()> {
        for dir in [self.dir.as_path(), &self.bundle(), &self.sockets] {
            private(dir)?;
        }
        Ok(())
    }

    /// Returns the bundle of the pod's own task. runc's shim only cleans up in a bundle of the task's name.
    pub(crate) fn bundle(&self) -> PathBuf {
        self.dir.join(&self.id)
    }

    pub(crate) fn sockets(&self) -> &Path {
        &self.sockets
    }

    /// Returns the socket for the shim's events.
    pub(crate) fn events(&self) -> PathBuf {
        self.sockets.join("events")
    }

    /// Returns the socket where proxies announce themselves.
    pub(crate) fn supervisor(&self) -> PathBuf {
        self.sockets.join("guard")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.dir.join("shim.log")
    }

    /// Records that the sandbox was created explicitly, not with the first container. Such a sandbox is not recreated.
    pub(crate) fn note_made(&self) -> Result<()> {
        let path = self.dir.join("made");
        File::create(&path)
            .map(drop)
            .map_err(Error::file("creating", &path))
    }

    pub(crate) fn was_made(&self) -> bool {
        self.dir.join("made").exists()
    }

    pub(crate) fn has_ended(&self) -> Error {
        Error::Failed(format!("the sandbox of pod {} has exited", self.id))
    }

    /// Takes the lock for finding or starting a shim; the starter and the supervisor hold it.
    pub(crate) fn lock(&self) -> Result<File> {
        let (path, file) = self.lock_file()?;
        file.lock().map_err(Error::file("locking", &path))?;
        Ok(file)
    }

    /// Takes the lock for the end of the pod. A start in progress is cancelled: its caller may be dead.
    pub(crate) fn lock_to_end(&self) -> Result<File> {
        let (path, file) = self.lock_file()?;
        let deadline = Instant::now() + LOCK_LIMIT;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    self.end_watchers();
                    sleep(Duration::from_millis(5));
                }
                Err(error) => return Err(Error::file("locking", &path)(error.into())),
            }
        }
    }

    fn lock_file(&self) -> Result<(PathBuf, File)> {
        let path = self.dir.join("lock");
        let file = File::create(&path).map_err(Error::file("opening", &path))?;
        Ok((path, file))
    }

    /// Kills its running or starting supervisor, found by the command line.
    fn end_watchers(&self) {
        let meant = [&b"supervise"[..], b"--pod", self.id.as_bytes()];
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let name = entry.file_name();
            let pid = name.to_str().and_then(|name| name.parse().ok());
            // Open the pidfd before the check, because the pid may be reused afterwards.
            let process = pid.and_then(Pid::from_raw);
            let process = process.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
            let line = orlop_fs::read_file(entry.path().join("cmdline"), orlop_fs::SMALL_FILE);
            let line = line.unwrap_or_default();
            let says = |word: &&[u8]| line.split(|byte| *byte == 0).any(|said| said == *word);
            if let Some(process) = process.filter(|_| meant.iter().all(says)) {
                let _ = pidfd_send_signal(&process, Signal::KILL);
            }
        }
    }

    pub(crate) fn endpoint(&self) -> Result<Endpoint> {
        let path = self.endpoint_file();
        let text = orlop_fs::read_file(&path, orlop_fs::SMALL_FILE)
            .map_err(Error::file("reading", &path))?;
        serde_json::from_slice(&text).map_err(|_| Error::Garbled(path.display().to_string()))
    }

    pub(crate) fn note_endpoint(&self, endpoint: &Endpoint) -> Result<()> {
        let path = self.endpoint_file();
        let text = serde_json::to_vec(endpoint).map_err(|error| {
            Error::Failed(format!("writing {} as JSON: {error}", path.display()))
        })?;
        orlop_fs::write_file(&path, 0o644, Outlives::Kill, &text)
            .map_err(Error::file("writing", &path))
    }

    pub(crate) fn tasks(&self) -> Result<Tasks> {
        Tasks::connect(&self.endpoint()?)
    }

    pub(crate) fn erase(&self) -> Result<()> {
        for dir in [&self.sockets, &self.dir] {
            orlop_fs::remove_tree(dir).map_err(Error::file("removing", dir))?;
        }
        Ok(())
    }

    fn endpoint_file(&self) -> PathBuf {
        self.dir.join("shim.json")
    }
}

/// The directory of a container.
#[derive(Clone, Debug)]
pub(crate) struct TaskDir {
    pub(crate) id: String,
    pub(crate) dir: PathBuf,
}

impl TaskDir {
    pub(crate) fn make(&self, pod: &str, shim: u32) -> Result<()> {
        private(&self.dir)?;
        private(&self.dir.join("rootfs"))?;
        let mounts_of = mounts::namespace_of(shim).unwrap_or_default();
        for (name, text) in [
            ("shim", shim.to_string()),
            ("pod", pod.to_owned()),
            ("namespace", mounts_of.to_string_lossy().into_owned()),
        ] {
            let path = self.dir.join(name);
            fs::write(&path, text).map_err(Error::file("writing", &path))?;
        }
        Ok(())
    }

    /// Returns the pid of the shim that created it; that shim may be dead and replaced.
    pub(crate) fn shim(&self) -> Option<u32> {
        let text = orlop_fs::read_text(self.dir.join("shim"), orlop_fs::SMALL_FILE).ok()?;
        text.parse().ok()
    }

    /// Leaves a marker for the daemon, which checks it when the container has ended.
    pub(crate) fn note_out_of_memory(&self) {
        // Without the marker, the reason is not reported.
        let _ = File::create(self.dir.join("oom"));
    }

    pub(crate) fn exists(&self) -> bool {
        self.dir.is_dir()
    }

    pub(crate) fn pod(&self, state: &StateDir) -> Result<PodDir> {
        let pod = orlop_fs::read_text(self.dir.join("pod"), orlop_fs::SMALL_FILE)
            .map_err(|_| Error::NoContainer(self.id.clone()))?;
        state.pod(&pod)
    }

    pub(crate) fn tasks(&self, state: &StateDir) -> Result<Tasks> {
        self.pod(state)?.tasks()
    }

    /// Returns the mounts that were copied to the shim for this container.
    pub(crate) fn mounts(&self) -> Vec<PathBuf> {
        let text =
            orlop_fs::read_text(self.dir.join("mounts"), orlop_fs::SMALL_FILE).unwrap_or_default();
        text.lines().map(PathBuf::from).collect()
    }

    /// Removes the mounts copied for it, whether or not the receiver is alive.
    pub(crate) fn take_back_mounts(&self) -> Result<()> {
        let namespace = orlop_fs::read_text(self.dir.join("namespace"), orlop_fs::SMALL_FILE);
        let namespace = namespace.unwrap_or_default();
        mounts::take_back_from(&self.mounts(), Path::new(&namespace), self.shim())
    }

    pub(crate) fn note_mounts(&self, mounts: &[PathBuf]) -> Result<()> {
        let lines: Vec<_> = mounts.iter().map(|path| path.to_string_lossy()).collect();
        let path = self.dir.join("mounts");
        fs::write(&path, lines.join("\n")).map_err(Error::file("writing", &path))
    }

    pub(crate) fn erase(&self) -> Result<()> {
        // runwasi's shims leave the root filesystem mounted.
        mounts::drop_own(&[self.dir.join("rootfs")]);
        orlop_fs::remove_tree(&self.dir).map_err(Error::file("removing", &self.dir))
    }
}

/// Creates a directory that the root user of a user namespace can traverse to its container's files, and that other
/// users cannot list.
pub(crate) fn private(dir: &Path) -> Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o711)
        .create(dir)
        .map_err(Error::file("creating", dir))
}

/// Validates an id, which becomes a directory name and is passed to the shim unchanged.
fn checked(id: &str) -> Result<&str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let fits = !id.is_empty() && id.len() <= 200 && !id.starts_with('.') && id.bytes().all(plain);
    if fits {
        return Ok(id);
    }
    Err(Error::Usage(format!(
        "{id:?} is not a valid container or pod ID"
    )))
}

#[cfg(test)]
mod tests {
    use super::StateDir;

    #[test]
    fn identities_name_directories_of_their_own() {
        let state = StateDir::new("/run/x".into());
        for bad in ["", ".", "..", "a/b", ".hidden", "a b", &"x".repeat(201)] {
            assert!(state.task(bad).is_err(), "{bad:?}");
            assert!(state.pod(bad).is_err(), "{bad:?}");
        }
        let long = "f".repeat(64);
        let pod = state.pod(&long).unwrap();
        assert!(pod.supervisor().as_os_str().len() < 60, "{pod:?}");
        assert_eq!(
            pod.bundle(),
            format!("/run/x/pods/{long}/{long}").as_ref() as &std::path::Path
        );
    }
}
