//! Reconnection to a running keeper.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use orlop_keeper_protocol::{Event, Hello, SOCKET_NAME, Subscribe, VERSION, Welcome};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::retry_on_intr;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use tokio::sync::mpsc;

use super::client::{Init, Keeper};
use super::connection::Connection;
use super::events::KeeperEvents;
use super::held::Held;
use crate::error::{Error, Result};

/// Time limit for a running keeper to answer a greeting.
pub(super) const GREETING_LIMIT: Duration = Duration::from_secs(5);

/// A running keeper that may not have answered yet.
#[derive(Debug)]
pub struct FoundKeeper {
    dir: PathBuf,
    connection: Arc<Connection>,
    events: Option<mpsc::Receiver<Event>>,
    process: Arc<Held>,
}

impl Keeper {
    /// Connects to the running keeper of the pod with the directory `dir`. Several connections may be open at a time.
    /// Read its [list](Keeper::list) afterwards to learn of missed events.
    pub async fn connect(dir: &Path) -> Result<(Keeper, KeeperEvents)> {
        Self::find(dir)?.greet(GREETING_LIMIT).await
    }

    /// Finds the keeper of the pod with the directory `dir` by its socket, without waiting. Must be called in a tokio
    /// runtime.
    pub fn find(dir: &Path) -> Result<FoundKeeper> {
        let failure = |source| Error::Connect {
            dir: dir.to_owned(),
            source,
        };
        let socket = open_socket(dir).map_err(failure)?;
        let process = listener_of(&socket).map_err(failure)?;
        let (connection, events) = Connection::new(socket).map_err(failure)?;
        Ok(FoundKeeper {
            dir: dir.to_owned(),
            connection: Arc::new(connection),
            events: Some(events),
            process: Arc::new(process),
        })
    }
}

impl FoundKeeper {
    /// Exchanges versions with the keeper. May be repeated after an error.
    pub async fn greet(&mut self, limit: Duration) -> Result<(Keeper, KeeperEvents)> {
        let doing = format!(
            "exchanging versions with the keeper in {}",
            self.dir.display()
        );
        let hello = Hello { version: VERSION };
        let (welcome, _) = self
            .connection
            .call(&doing, &hello, Vec::new(), limit)
            .await?;
        let (connection, process) = (Arc::clone(&self.connection), Arc::clone(&self.process));
        let keeper = settle(connection, Some(process), &self.dir, welcome, limit).await?;
        let Some(queue) = self.events.take() else {
            return Err(Error::Gone { doing });
        };
        Ok((keeper, KeeperEvents { queue }))
    }

    /// Whether the connection is still open; if not, find the keeper again.
    pub fn is_connected(&self) -> bool {
        self.connection.is_open()
    }

    /// Whether its process has exited.
    pub fn has_ended(&self) -> bool {
        self.process.has_ended()
    }

    /// Waits for its process to exit.
    pub async fn ended(&self) {
        self.process.ended().await;
    }

    /// Kills its process; the exit may take a moment.
    pub(super) fn kill(&self) -> io::Result<()> {
        self.process.kill()
    }
}

/// Subscribes to a keeper's events and opens its processes, after it has answered the greeting.
pub(super) async fn settle(
    connection: Arc<Connection>,
    process: Option<Arc<Held>>,
    dir: &Path,
    welcome: Welcome,
    limit: Duration,
) -> Result<Keeper> {
    let doing = format!("adopting the keeper in {}", dir.display());
    let failure = |source| Error::Connect {
        dir: dir.to_owned(),
        source,
    };
    let process = match process {
        Some(process) => process,
        None => Arc::new(Held::open(welcome.pid).map_err(failure)?),
    };
    let init = match welcome.init_pid {
        0 => None,
        pid => match Held::open(pid) {
            Ok(held) => Some(Init { pid, held }),
            Err(error) if is_no_process(&error) => None,
            Err(error) => return Err(failure(error)),
        },
    };
    connection
        .call(&doing, &Subscribe {}, Vec::new(), limit)
        .await?;
    // The keeper answers, so it had its process ID all along. Its init's ID is read again: no other process can get it
    // before the keeper notices the init's exit.
    let init = match init {
        Some(init) => {
            let hello = Hello { version: VERSION };
            let (again, _) = connection.call(&doing, &hello, Vec::new(), limit).await?;
            Some(init).filter(|init| again.init_pid == init.pid)
        }
        None => None,
    };
    let dir = dir.to_owned();
    Ok(Keeper::new(connection, welcome, process, init, dir))
}

fn is_no_process(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

/// Connects without blocking, so that a hung keeper blocks no thread.
fn open_socket(dir: &Path) -> io::Result<UnixStream> {
    // A pod's directory may be longer than a socket address.
    let dir = open(
        dir,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let path = format!("/proc/self/fd/{}/{SOCKET_NAME}", dir.as_raw_fd());
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

/// Opens the process that listens on the other end of a socket.
fn listener_of(socket: &UnixStream) -> io::Result<Held> {
    let pid = socket_peercred(socket)?.pid.as_raw_pid();
    let held = Held::open(pid.unsigned_abs())?;
    // The connection closes when the process exits: while it is open, the process ID is still valid.
    let mut polled = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::RDHUP)];
    let now = Timespec::default();
    retry_on_intr(|| poll(&mut polled, Some(&now)))?;
    let over = PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR;
    if polled[0].revents().intersects(over) {
        return Err(io::ErrorKind::ConnectionReset.into());
    }
    Ok(held)
}
