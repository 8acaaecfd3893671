//! The server: started, found, or taken over from; and what it is asked.

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

/// Where a server is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The program.
    pub program: PathBuf,
    /// The server's directory, which is made if it is missing. It should be gone after a boot.
    pub directory: PathBuf,
    /// Where the files of the layers are; it is made if it is missing.
    pub mount_point: PathBuf,
    /// Whether requests that a dead server had read are found in its journal even where the kernel can
    /// send them again. For tests of what older kernels need.
    pub by_journal: bool,
}

/// A server that runs.
#[derive(Debug)]
pub struct Server {
    directory: PathBuf,
    calls: Mutex<Connection>,
    pid: u32,
    held: Held,
}

impl Server {
    /// Begins a session. What is left at the mount point of an earlier one is detached; no layers are
    /// there.
    pub fn start(place: &Place) -> Result<Self> {
        make_directory(&place.directory)?;
        Self::begin(place, None)
    }

    /// Has a successor take a session over whose server is dead. All layers are there; who reads goes on.
    pub fn succeed(place: &Place, held: &Held) -> Result<Self> {
        Self::begin(place, Some(held))
    }

    /// Finds the server that runs; `None` if none does.
    pub fn connect(directory: &Path) -> Result<Option<Self>> {
        let Some(mut connection) = connect(directory)? else {
            return Ok(None);
        };
        let (pid, held) = match connection.hello() {
            Ok(welcome) => welcome,
            // It died just now.
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
        // It ends as soon as the server proper has left it.
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

    /// The server's process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What makes the session outlive its server.
    pub fn held(&self) -> &Held {
        &self.held
    }

    /// As `held`, of a server that is known to be dead.
    pub fn into_held(self) -> Held {
        self.held
    }

    /// Listens to what the server tells. All that is waited for is asked for anew.
    pub fn events(&self) -> Result<Events> {
        let mut connection = connect(&self.directory)?.ok_or(Error::Gone)?;
        connection.hello()?;
        Events::new(connection)
    }

    /// Has a layer be a file of that name. One that is there already is opened anew, from where it is now.
    pub fn add(&self, key: &str, directory: &Path, size: u64, timeout: Duration) -> Result<()> {
        let add = AddLayer {
            key: key.to_owned(),
            directory: directory.to_owned(),
            size,
            timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
        };
        self.calls.lock().call(&add, &[]).map(|_| ())
    }

    /// Takes a layer's name away. Who waits for parts of it fails; who has it open reads on what is here.
    pub fn remove(&self, key: &str) -> Result<()> {
        let remove = RemoveLayer {
            key: key.to_owned(),
        };
        self.calls.lock().call(&remove, &[]).map(|_| ())
    }

    /// All layers that have a name.
    pub fn list(&self) -> Result<Vec<LayerInfo>> {
        let (listing, _) = self.calls.lock().call(&ListLayers {}, &[])?;
        Ok(listing.layers)
    }

    /// Unmounts the file system, and leaves its place to another server. This one answers reads of what is here, and
    /// ends when nobody has a file of it any more.
    pub fn stop(self) -> Result<()> {
        self.calls
            .lock()
            .call(&LazyStop { keep: false }, &[])
            .map(|_| ())
    }

    /// Ends the server for a successor of another version. What makes the session outlive it.
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
    // An address has room for a short path only.
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
