//! Start of a keeper.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::client::Keeper;
use super::connection::Connection;
use super::events::KeeperEvents;
use super::find::settle;
use super::fork;
use super::spec::KeeperSpec;
use crate::blocking::blocking;
use crate::error::{Error, Result};

/// Time limit for the setup of a keeper.
pub(super) const SPAWN_LIMIT: Duration = Duration::from_secs(30);

impl Keeper {
    /// Starts a keeper and waits until the pod's namespaces are ready. It is an orphan in a new session, and inherits
    /// none of the daemon's descriptors. On an error, nothing remains except perhaps the [pin](KeeperSpec::net_pin).
    pub async fn spawn(spec: KeeperSpec) -> Result<(Keeper, KeeperEvents)> {
        let setup = spec.to_setup();
        let (program, dir) = (spec.program.clone(), spec.dir.clone());
        let failure = |source| Error::Spawn {
            program: program.clone(),
            source,
        };
        let descriptors = spec.descriptors().map_err(failure)?;
        let started = blocking(move || start(&spec)).await;
        let (child, socket) = started.map_err(failure)?;
        let reaper = Reaper(child);
        let (connection, events) = Connection::new(socket).map_err(failure)?;
        let doing = format!("setting up keeper {}", program.display());
        let (welcome, _) = connection
            .call(&doing, &setup, descriptors, SPAWN_LIMIT)
            .await?;
        for warning in &welcome.warnings {
            tracing::warn!(pod = welcome.pod_id, "keeper: {warning}");
        }
        let keeper = settle(connection.into(), None, &dir, welcome, SPAWN_LIMIT).await?;
        drop(reaper);
        Ok((keeper, KeeperEvents { queue: events }))
    }
}

fn start(spec: &KeeperSpec) -> io::Result<(Pid, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    let program = fork::word(spec.program.as_os_str().as_bytes())?;
    let argument = fork::word(spec.pod_id.as_str())?;
    let child = fork::start(&program, &argument, OwnedFd::from(theirs))?;
    Ok((child, ours))
}

/// Reaps the intermediate process, which exits as soon as it has started the keeper. Kills it if it does not.
struct Reaper(Pid);

impl Drop for Reaper {
    fn drop(&mut self) {
        let child = self.0;
        if matches!(waitpid(Some(child), WaitOptions::NOHANG), Ok(Some(_))) {
            return;
        }
        let _ = kill_process(child, Signal::KILL);
        tokio::spawn(blocking(move || {
            let _ = waitpid(Some(child), WaitOptions::empty());
            Ok(())
        }));
    }
}
