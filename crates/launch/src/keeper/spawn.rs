//! Starting a keeper, and finding one again.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use orlop_wire::{Hello, SOCKET_NAME, Subscribe, VERSION};
use rustix::fs::{Mode, OFlags, open};
use tokio::time::timeout;

use super::client::Keeper;
use super::connection::Connection;
use super::events::KeeperEvents;
use super::spec::KeeperSpec;
use crate::error::{Error, Result};
use crate::open_files::restore_open_files;

/// How long a keeper may take to set itself up.
const SPAWN_LIMIT: Duration = Duration::from_secs(30);

/// How long a running keeper may take to answer a greeting.
const GREETING_LIMIT: Duration = Duration::from_secs(5);

impl Keeper {
    /// Starts a keeper and waits until the pod's namespaces are ready. It is nobody's child, in a
    /// session of its own, and holds none of the daemon's descriptors. On an error nothing of it
    /// remains but, perhaps, the [pin](KeeperSpec::net_pin).
    pub async fn spawn(spec: KeeperSpec) -> Result<(Keeper, KeeperEvents)> {
        let setup = spec.to_setup();
        let program = spec.program.clone();
        let failure = |source| Error::Spawn {
            program: program.clone(),
            source,
        };
        let (child, socket) = blocking(move || start(&spec)).await.map_err(failure)?;
        let reaper = Reaper(Some(child));
        let (connection, events) = Connection::new(socket).map_err(failure)?;
        let doing = format!("setting up keeper {}", program.display());
        let (welcome, _) = connection
            .call(&doing, &setup, Vec::new(), SPAWN_LIMIT)
            .await?;
        let subscribe = Subscribe {};
        connection
            .call(&doing, &subscribe, Vec::new(), SPAWN_LIMIT)
            .await?;
        for warning in &welcome.warnings {
            tracing::warn!(pod = welcome.pod_id, "keeper: {warning}");
        }
        drop(reaper);
        let keeper = Keeper::new(connection, welcome);
        Ok((keeper, KeeperEvents { queue: events }))
    }

    /// Connects to the running keeper of the pod whose directory is `dir`. Several connections
    /// may be open at a time. The way to miss nothing is then to ask for its
    /// [list](Keeper::list).
    pub async fn connect(dir: &Path) -> Result<(Keeper, KeeperEvents)> {
        let failure = |source| Error::Connect {
            dir: dir.to_owned(),
            source,
        };
        let path = dir.to_owned();
        // A keeper that hangs accepts nobody.
        let opening = timeout(GREETING_LIMIT, blocking(move || open_socket(&path)));
        let opened = opening.await.unwrap_or_else(|late| Err(late.into()));
        let socket = opened.map_err(failure)?;
        let (connection, events) = Connection::new(socket).map_err(failure)?;
        let doing = format!("greeting the keeper in {}", dir.display());
        let hello = Hello { version: VERSION };
        let (welcome, _) = connection
            .call(&doing, &hello, Vec::new(), GREETING_LIMIT)
            .await?;
        let subscribe = Subscribe {};
        connection
            .call(&doing, &subscribe, Vec::new(), GREETING_LIMIT)
            .await?;
        let keeper = Keeper::new(connection, welcome);
        Ok((keeper, KeeperEvents { queue: events }))
    }
}

fn start(spec: &KeeperSpec) -> io::Result<(Child, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    let child = Command::new(&spec.program)
        .arg(&spec.pod_id)
        .env_clear()
        .current_dir("/")
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    // Before it is told what to do: all processes of the pod descend from it.
    restore_open_files(child.id())?;
    Ok((child, ours))
}

fn open_socket(dir: &Path) -> io::Result<UnixStream> {
    // A pod's directory may be longer than a socket's address can be.
    let dir = open(
        dir,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    UnixStream::connect(format!("/proc/self/fd/{}/{SOCKET_NAME}", dir.as_raw_fd()))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// Reaps the process that was started, which ends as soon as the keeper proper has left it; kills
/// it if it does not.
struct Reaper(Option<Child>);

impl Drop for Reaper {
    fn drop(&mut self) {
        let Some(mut child) = self.0.take() else {
            return;
        };
        if matches!(child.try_wait(), Ok(Some(_))) {
            return;
        }
        tokio::task::spawn_blocking(move || {
            let _ = child.kill();
            let _ = child.wait();
        });
    }
}
