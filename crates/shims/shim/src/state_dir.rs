//! Where things are kept: below the runtime's `--root`.

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

/// Paths of sockets have 107 bytes at most: so much of a pod's identity names it well enough.
const SHORT: usize = 24;

/// Who ends a pod waits so long for others that do.
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

    /// The pod of a container that names none: it has one of its own. Some runtimes take the beginning
    /// of an identity for all of it, so that neither may begin with the other.
    pub(crate) fn pod_of_one(&self, task: &TaskDir) -> Result<PodDir> {
        self.pod(&format!("p.{}", task.id))
    }

    pub(crate) fn task(&self, id: &str) -> Result<TaskDir> {
        Ok(TaskDir {
            id: checked(id)?.to_owned(),
            dir: self.0.join("tasks").join(id),
        })
    }

    /// The shim of a container.
    pub(crate) fn shim_of(&self, id: &str) -> Result<Tasks> {
        self.task(id)?.tasks(self)
    }

    /// A pod's containers that nobody has deleted.
    pub(crate) fn tasks_of(&self, pod: &str) -> Vec<TaskDir> {
        let entries = fs::read_dir(self.0.join("tasks"));
        let entries = entries.into_iter().flatten().filter_map(Result::ok);
        let tasks = entries.filter_map(|entry| self.task(entry.file_name().to_str()?).ok());
        tasks
            .filter(|task| task.pod(self).is_ok_and(|of| of.id == pod))
            .collect()
    }
}

/// What is kept for a pod: the place of its shim.
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

    /// The bundle of the pod's own task. runc's shim cleans up only in one of the task's name.
    pub(crate) fn bundle(&self) -> PathBuf {
        self.dir.join(&self.id)
    }

    pub(crate) fn sockets(&self) -> &Path {
        &self.sockets
    }

    /// Where the shim tells its events.
    pub(crate) fn events(&self) -> PathBuf {
        self.sockets.join("events")
    }

    /// Where those say who they are that stand for a process.
    pub(crate) fn supervisor(&self) -> PathBuf {
        self.sockets.join("guard")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.dir.join("shim.log")
    }

    /// Notes that the sandbox was made for itself, and not with the first container: then there is no
    /// second one.
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

    /// Held while a shim is looked for or started, by who does that and by who is to watch over it.
    pub(crate) fn lock(&self) -> Result<File> {
        let (path, file) = self.lock_file()?;
        file.lock().map_err(Error::file("locking", &path))?;
        Ok(file)
    }

    /// The same for who ends it. If one is being started, that comes to nothing: whoever wanted it may be
    /// dead.
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

    /// Ends who watches over it, or is about to: its command line tells.
    fn end_watchers(&self) {
        let meant = [&b"supervise"[..], b"--pod", self.id.as_bytes()];
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let name = entry.file_name();
            let pid = name.to_str().and_then(|name| name.parse().ok());
            // Taken hold of before it is looked at: its number may be another's afterwards.
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

/// What is kept for a container.
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

    /// The process of the shim that has made it, which may be dead and have a successor.
    pub(crate) fn shim(&self) -> Option<u32> {
        let text = orlop_fs::read_text(self.dir.join("shim"), orlop_fs::SMALL_FILE).ok()?;
        text.parse().ok()
    }

    /// Leaves a word for the daemon, which looks for it when the container has ended.
    pub(crate) fn note_out_of_memory(&self) {
        // One that can't be left is a reason that stays untold.
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

    /// Mounts that were given to the shim for this container.
    pub(crate) fn mounts(&self) -> Vec<PathBuf> {
        let text =
            orlop_fs::read_text(self.dir.join("mounts"), orlop_fs::SMALL_FILE).unwrap_or_default();
        text.lines().map(PathBuf::from).collect()
    }

    /// Undoes the mounts that were given for it, whether or not lives who was given them.
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
        // runwasi's shims leave the container's files mounted.
        mounts::drop_own(&[self.dir.join("rootfs")]);
        orlop_fs::remove_tree(&self.dir).map_err(Error::file("removing", &self.dir))
    }
}

/// Makes a directory that the root of a user namespace can walk through to the files of its
/// container, and in which nobody else can look around.
pub(crate) fn private(dir: &Path) -> Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o711)
        .create(dir)
        .map_err(Error::file("creating", dir))
}

/// An identity names a directory, and goes to the shim as it is.
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
