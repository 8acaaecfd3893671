//! The server process: start, discovery, takeover and requests.

use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use orlop_keeper_protocol::{
    AddLayer, LAZY_SOCKET_NAME, LAZY_VERSION, LayerInfo, LazyBegin, LazyStop, ListLayers,
    RemoveLayer,
};
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};

use super::connection::Connection;
use super::error::{Error, Result};
use super::events::Events;
use super::held::Held;

/// The paths of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The server's program.
    pub program: PathBuf,
    /// The server's directory, created if missing. It should not survive a reboot.
    pub directory: PathBuf,
    /// The mount point for the files of the layers, created if missing.
    pub mount_point: PathBuf,
    /// Whether to replay a dead server's requests from its journal even if the kernel can resend them. Used by tests
    /// of the path for older kernels.
    pub by_journal: bool,
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    directory: PathBuf,
    calls: Mutex<Connection>,
    pid: u32,
    held: Held,
}

impl Server {
    /// Starts a new session without layers. Detaches the mount of an earlier session at the mount point.
    pub fn start(place: &Place) -> Result<Self> {
        make_directory(&place.directory)?;
        Self::begin(place, None)
    }

    /// Starts a successor of a dead server in the same session. It keeps all layers, and waiting readers continue.
    pub fn succeed(place: &Place, held: &Held) -> Result<Self> {
        Self::begin(place, Some(held))
    }

    /// Connects to the running server; returns `None` if none runs.
    pub fn connect(directory: &Path) -> Result<Option<Self>> {
        let Some(mut connection) = connect(directory)? else {
            return Ok(None);
        };
        let (pid, held) = match connection.hello() {
            Ok(welcome) => welcome,
            // The server just exited.
            Err(Error::Gone) => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(Some(Self {
            directory: directory.to_owned(),
            calls: Mutex::new(connection),
            pid,
            held,
        }))
    }

    fn begin(place: &Place, held: Option<&Held>) -> Result<Self> {
        let failure = |source| Error::Start {
            program: place.program.clone(),
            source,
        };
        let (ours, theirs) = UnixStream::pair().map_err(failure)?;
        let mut child = Command::new(&place.program)
            .args([&place.directory, &place.mount_point])
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failure)?;
        // The child exits as soon as the server process has detached from it.
        let status = child.wait().map_err(failure)?;
        if !status.success() {
            return Err(failure(io::Error::other(status.to_string())));
        }
        let mut connection = Connection::new(ours)?;
        let begin = LazyBegin {
            version: LAZY_VERSION,
            take_over: held.is_some(),
            by_journal: place.by_journal,
        };
        let fds = held.map(Held::fds);
        let (pid, held) = connection.welcomed(&begin, fds.as_ref().map_or(&[], |fds| &fds[..]))?;
        Ok(Self {
            directory: place.directory.clone(),
            calls: Mutex::new(connection),
            pid,
            held,
        })
    }

    /// Returns the server's process ID.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the descriptors that let the session outlive its server.
    pub fn held(&self) -> &Held {
        &self.held
    }

    /// Returns the same as `held`, for a server that is known to be dead.
    pub fn into_held(self) -> Held {
        self.held
    }

    /// Subscribes to the server's events. The server repeats all pending fetches.
    pub fn events(&self) -> Result<Events> {
        let mut connection = connect(&self.directory)?.ok_or(Error::Gone)?;
        connection.hello()?;
        Events::new(connection)
    }

    /// Adds a layer as a file with the name `key`. An existing layer is reopened from its current directory.
    pub fn add(&self, key: &str, directory: &Path, size: u64, timeout: Duration) -> Result<()> {
        let add = AddLayer {
            key: key.to_owned(),
            directory: directory.to_owned(),
            size,
            timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
        };
        self.calls.lock().call(&add, &[]).map(|_| ())
    }

    /// Removes a layer's name. Reads that wait for its parts fail; open files can still read the present parts.
    pub fn remove(&self, key: &str) -> Result<()> {
        let remove = RemoveLayer {
            key: key.to_owned(),
        };
        self.calls.lock().call(&remove, &[]).map(|_| ())
    }

    /// Lists all layers that have a name.
    pub fn list(&self) -> Result<Vec<LayerInfo>> {
        let (listing, _) = self.calls.lock().call(&ListLayers {}, &[])?;
        Ok(listing.layers)
    }

    /// Unmounts the file system, and releases its directory to another server. This server still answers reads of
    /// present parts, and exits when no process has a file open any more.
    pub fn stop(self) -> Result<()> {
        self.calls
            .lock()
            .call(&LazyStop { keep: false }, &[])
            .map(|_| ())
    }

    /// Stops the server for a successor of another version. Returns the descriptors that keep the session alive.
    pub fn leave(self) -> Result<Held> {
        self.calls.lock().call(&LazyStop { keep: true }, &[])?;
        Ok(self.held)
    }
}

fn connect(directory: &Path) -> Result<Option<Connection>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = match rustix::fs::open(directory, flags, Mode::empty()) {
        Ok(directory) => directory,
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(file("opening", directory)(errno.into())),
    };
    // A socket address only has space for a short path.
    let path = format!("/proc/self/fd/{}/{LAZY_SOCKET_NAME}", directory.as_raw_fd());
    match UnixStream::connect(path) {
        Ok(socket) => Connection::new(socket).map(Some),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Ok(None),
            _ => Err(Error::Socket(error)),
        },
    }
}

fn make_directory(path: &Path) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(file("making directory", path))?;
    let permissions = Permissions::from_mode(0o700);
    std::fs::set_permissions(path, permissions).map_err(file("changing the mode of", path))
}

fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File {
        doing,
        path,
        source,
    }
}
