//! The state of a container between two commands: a directory with `state.json` and, while its process waits, the start
//! fifo (at the same paths as runc's).

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use orlop_fs::{Draft, Outlives};
use orlop_oci_types::Hook;
use rustix::fs::{AtFlags, FileType, Gid, Mode, Uid, chownat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::args::Globals;
use crate::bundle::Bundle;
use crate::cgroup::Cgroup;
use crate::error::{Error, Result, While};
use crate::json;
use crate::mount::name;
use crate::rdt::Rdt;
use crate::sys::open_pidfd;
use crate::time::now;
use crate::users;

/// The fifo in which a created container waits, with runc's name.
pub(crate) const FIFO: &CStr = c"exec.fifo";
const FIFO_NAME: &str = "exec.fifo";

const STATE: &str = "state.json";
/// The seccomp filter of the container's process, for processes that join.
const FILTER: &str = "seccomp.bpf";

/// The saved state of a container.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct State {
    pub(crate) oci_version: String,
    pub(crate) id: String,
    /// The PID of the first process; 0 before it exists.
    pub(crate) pid: i32,
    /// Its start time in clock ticks, which detects a reused PID.
    pub(crate) start_time: u64,
    pub(crate) created: String,
    pub(crate) bundle: PathBuf,
    pub(crate) rootfs: PathBuf,
    pub(crate) owner: String,
    #[serde(default)]
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) cgroup: Cgroup,
    /// `CLONE_NEW…` flags of all namespaces that are not the host's.
    pub(crate) namespaces: u64,
    /// Whether the configuration has no process to start.
    #[serde(default)]
    pub(crate) never_starts: bool,
    /// Whether its root is the root of its mount namespace.
    pub(crate) pivoted: bool,
    pub(crate) rootless: bool,
    #[serde(default)]
    pub(crate) poststart: Vec<Hook>,
    #[serde(default)]
    pub(crate) poststop: Vec<Hook>,
    /// The agent for seccomp notifications.
    #[serde(default)]
    pub(crate) listener: Option<Listener>,
    /// Its group for cache and memory bandwidth.
    #[serde(default)]
    pub(crate) rdt: Option<Rdt>,
    /// Its standard streams, recorded for a restore with other streams.
    #[serde(default)]
    pub(crate) descriptors: Vec<String>,
}

/// An agent for seccomp notifications (`linux.seccomp.listenerPath`).
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Listener {
    pub(crate) path: PathBuf,
    pub(crate) metadata: String,
}

/// The status of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Creating,
    Created,
    Running,
    Paused,
    Stopped,
}

impl Status {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Created => "created",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
        }
    }
}

/// A container's state directory.
#[derive(Clone, Debug)]
pub(crate) struct StateDir {
    path: PathBuf,
}

impl StateDir {
    /// Returns the directory of a container, if its ID is valid.
    pub(crate) fn of(root: &Path, id: &str) -> Result<Self> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '+' | '-' | '.');
        if id.is_empty() || id.starts_with('.') || id.len() > 1024 || !id.chars().all(plain) {
            return Err(Error::new(format!("invalid container ID format: {id:?}")));
        }
        Ok(Self {
            path: root.join(id),
        })
    }

    /// Makes the directory; an existing one belongs to another container.
    pub(crate) fn make(globals: &Globals, id: &str) -> Result<Self> {
        let dir = Self::of(&globals.root, id)?;
        make_root(globals)?;
        fs::DirBuilder::new()
            .mode(0o711)
            .create(&dir.path)
            .map_err(|error| {
                if error.kind() == ErrorKind::AlreadyExists {
                    return Error::new(format!("container with given ID already exists: {id}"));
                }
                let hint = hint_of(globals);
                Error::new(format!(
                    "cannot create {}{hint}: {error}",
                    dir.path.display()
                ))
            })?;
        Ok(dir)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn exists(&self) -> bool {
        self.path.is_dir()
    }

    /// Loads the state of the container.
    pub(crate) fn load(&self) -> Result<State> {
        if !self.exists() {
            return Err(Error::new("container does not exist"));
        }
        json::read(&self.path.join(STATE))
    }

    pub(crate) fn save(&self, state: &State) -> Result<()> {
        self.draft(state)?.keep()
    }

    /// Returns a state file that is written but not published yet.
    pub(crate) fn draft(&self, state: &State) -> Result<Written> {
        let text =
            serde_json::to_vec(state).doing(|| "cannot encode the container state".to_owned())?;
        let path = self.path.join(STATE);
        Written::new(path, 0o600, &text, |path| {
            format!("writing {}", path.display())
        })
    }

    /// Makes the fifo and changes its owner to the user who will open it.
    pub(crate) fn make_fifo(&self, owner: Option<(u32, u32)>) -> Result<OwnedFd> {
        let dir = name(&self.path).doing(|| self.path.display().to_string())?;
        let told = || format!("cannot create {}", self.fifo().display());
        rustix::fs::mknodat(&dir, FIFO, FileType::Fifo, Mode::from_raw_mode(0o622), 0)
            .doing(told)?;
        // Set explicitly, because any user may open it whatever the caller's umask is.
        rustix::fs::chmodat(&dir, FIFO, Mode::from_raw_mode(0o622), AtFlags::empty())
            .doing(told)?;
        if let Some((uid, gid)) = owner {
            let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
            match chownat(&dir, FIFO, uid, gid, AtFlags::SYMLINK_NOFOLLOW) {
                // Its mode lets all users write anyway.
                Err(Errno::PERM) if !users::is_root() => {}
                owned => owned.doing(told)?,
            }
        }
        Ok(dir)
    }

    pub(crate) fn fifo(&self) -> PathBuf {
        self.path.join(FIFO_NAME)
    }

    pub(crate) fn filter(&self) -> PathBuf {
        self.path.join(FILTER)
    }

    /// Removes the directory of the container.
    pub(crate) fn remove(&self) -> Result<()> {
        match orlop_fs::remove_tree(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            done => done.doing(|| format!("removing {}", self.path.display())),
        }
    }
}

/// A file with complete content that gets its name later.
#[derive(Debug)]
pub(crate) struct Written {
    draft: Draft<'static>,
    told: String,
}

impl Written {
    pub(crate) fn new(
        path: PathBuf,
        mode: u32,
        text: &[u8],
        told: impl FnOnce(&Path) -> String,
    ) -> Result<Self> {
        let told = told(&path);
        let draft = Draft::of(path, mode).and_then(|draft| {
            draft.file().write_all(text)?;
            Ok(draft)
        });
        match draft {
            Ok(draft) => Ok(Self { draft, told }),
            Err(error) => Err(Error::new(format!("{told}: {error}"))),
        }
    }

    pub(crate) fn keep(self) -> Result<()> {
        // Needed only while the container's process lives.
        self.draft.keep(Outlives::Kill).doing(|| self.told)
    }

    /// Removes an outdated file first: replacing it would wait for the disk on some file systems.
    pub(crate) fn keep_instead(self, path: &Path) -> Result<()> {
        let _ = fs::remove_file(path);
        self.keep()
    }
}

impl State {
    /// Returns the state of a container before it exists, with a common root and namespaces.
    pub(crate) fn new(globals: &Globals, id: &str, bundle: &Bundle, cgroup: Cgroup) -> Self {
        let spec = &bundle.spec;
        let hooks = spec.hooks.as_ref();
        Self {
            oci_version: spec.oci_version.clone(),
            id: id.to_owned(),
            pid: 0,
            start_time: 0,
            created: now(),
            bundle: bundle.dir.clone(),
            rootfs: bundle.rootfs(),
            owner: String::new(),
            annotations: spec.annotations.clone(),
            cgroup,
            namespaces: 0,
            never_starts: !bundle.starts,
            pivoted: true,
            rootless: globals.rootless(),
            poststart: hooks.map_or_else(Vec::new, |hooks| hooks.poststart.clone()),
            poststop: hooks.map_or_else(Vec::new, |hooks| hooks.poststop.clone()),
            listener: None,
            rdt: None,
            descriptors: Vec::new(),
        }
    }

    /// Returns the status of the container.
    pub(crate) fn status(&self, dir: &StateDir) -> Status {
        self.look(dir).0
    }

    /// Returns the status of the container, and its first process, if that is alive.
    pub(crate) fn look(&self, dir: &StateDir) -> (Status, Option<OwnedFd>) {
        match self.init() {
            Some(init) => (self.status_alive(dir), Some(init)),
            // Opening a descriptor may have failed because of a limit.
            None if self.is_alive() => (self.status_alive(dir), None),
            None => (Status::Stopped, None),
        }
    }

    fn status_alive(&self, dir: &StateDir) -> Status {
        if self.cgroup.is_frozen() {
            // A container that waits for its start can be paused as well.
            Status::Paused
        } else if dir.fifo().exists() {
            Status::Created
        } else {
            Status::Running
        }
    }

    /// Returns the first process, if that is alive.
    pub(crate) fn init(&self) -> Option<OwnedFd> {
        let process_fd = open_pidfd(self.pid).ok()?;
        // Checked afterwards: then the descriptor cannot belong to another process.
        self.is_alive().then_some(process_fd)
    }

    fn is_alive(&self) -> bool {
        let found = Some(self.pid).filter(|&pid| pid != 0).and_then(process);
        found.is_some_and(|(start, alive)| start == self.start_time && alive)
    }

    /// Returns the document of `state`, which hooks also read.
    pub(crate) fn document(&self, status: Status) -> serde_json::Value {
        let pid = if status == Status::Stopped {
            0
        } else {
            self.pid
        };
        let mut document = serde_json::json!({
            "ociVersion": self.oci_version,
            "id": self.id,
            "pid": pid,
            "status": status.as_str(),
            "bundle": self.bundle,
            "rootfs": self.rootfs,
            "created": self.created,
            "owner": self.owner,
        });
        if !self.annotations.is_empty() {
            document["annotations"] = serde_json::json!(self.annotations);
        }
        document
    }
}

/// A state document in runc's order of fields: scripts match it with patterns.
pub(crate) struct InOrder<'a>(pub(crate) &'a serde_json::Value);

impl serde::Serialize for InOrder<'_> {
    fn serialize<S: serde::Serializer>(
        &self,
        serializer: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        const ORDER: [&str; 9] = [
            "ociVersion",
            "id",
            "pid",
            "status",
            "bundle",
            "rootfs",
            "created",
            "annotations",
            "owner",
        ];
        let fields = ORDER
            .iter()
            .filter_map(|name| Some((name, self.0.get(name)?)));
        serializer.collect_map(fields)
    }
}

/// Returns the targets of this process's standard streams, which a container without a terminal inherits.
pub(crate) fn own_descriptors(terminal: bool) -> Vec<String> {
    if terminal {
        return Vec::new();
    }
    let target = |fd: u32| {
        let link = fs::read_link(format!("/proc/self/fd/{fd}"));
        link.map_or_else(|_| String::new(), |it| it.display().to_string())
    };
    (0..3).map(target).collect()
}

/// Returns the start time of a process, and whether it is alive rather than a zombie.
pub(crate) fn process(pid: i32) -> Option<(u64, bool)> {
    let stat = orlop_fs::read_kernel_text(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain anything, parentheses too.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let state = fields.next()?;
    let start = fields.nth(18)?.parse().ok()?;
    Some((start, !matches!(state, "Z" | "X")))
}

/// Returns a hint for a user who cannot write to the state root.
fn hint_of(globals: &Globals) -> &'static str {
    if globals.root_is_users {
        " (the path in $XDG_RUNTIME_DIR must be writable by the user)"
    } else if globals.root_is_default && !users::is_root() {
        " (XDG_RUNTIME_DIR is not set; set --root to a directory that you own)"
    } else {
        ""
    }
}

/// Makes the state root, which must belong to this user.
fn make_root(globals: &Globals) -> Result<()> {
    let root = globals.root.as_path();
    let told = || format!("--root {}", root.display());
    if !root.exists() {
        // The sticky bit protects it from cleanup of `XDG_RUNTIME_DIR` (XDG Base Directory Specification).
        let mode = if globals.root_is_users { 0o1700 } else { 0o711 };
        let hint = hint_of(globals);
        fs::DirBuilder::new()
            .mode(mode)
            .recursive(true)
            .create(root)
            .doing(|| format!("{}{hint}", told()))?;
    }
    let look = fs::metadata(root).doing(told)?;
    if !look.is_dir() {
        return Err(Error::new(format!("{}: not a directory", told())));
    }
    let own = rustix::process::geteuid().as_raw();
    if look.uid() != own && look.uid() != 0 {
        let why = format!(
            "{}: the directory belongs to user {}, who could change its contents",
            told(),
            look.uid()
        );
        return Err(Error::new(why));
    }
    if look.mode() & 0o022 != 0 && look.mode() & 0o1000 == 0 {
        let why = format!(
            "{}: other users can write to the directory (mode {:o}); use a directory that only you can write to",
            told(),
            look.mode() & 0o7777
        );
        return Err(Error::new(why));
    }
    Ok(())
}

/// Opens the fifo of a created container, which releases it; readable once the process continues.
pub(crate) fn open_fifo(dir: &StateDir) -> Result<OwnedFd> {
    use rustix::fs::{OFlags, open};
    let path = dir.fifo();
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let fifo = open(&path, flags, Mode::empty()).doing(|| format!("opening {}", path.display()))?;
    let kind = rustix::fs::fstat(fifo.as_fd()).map(|look| FileType::from_raw_mode(look.st_mode));
    if kind != Ok(FileType::Fifo) {
        return Err(Error::new(format!("{} is not a FIFO", path.display())));
    }
    Ok(fifo)
}
