//! Starting a keeper.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::client::Keeper;
use super::connection::Connection;
use super::events::KeeperEvents;
use super::find::settle;
use super::spec::KeeperSpec;
use crate::error::{Error, Result};

/// How long a keeper may take to set itself up.
pub(super) const SPAWN_LIMIT: Duration = Duration::from_secs(30);

impl Keeper {
    /// Starts a keeper and waits until the pod's namespaces are ready. It is nobody's child, in a
    /// session of its own, and holds none of the daemon's descriptors. On an error nothing of it
    /// remains but, perhaps, the [pin](KeeperSpec::net_pin).
    pub async fn spawn(spec: KeeperSpec) -> Result<(Keeper, KeeperEvents)> {
        let setup = spec.to_setup();
        let (program, dir) = (spec.program.clone(), spec.dir.clone());
        let failure = |source| Error::Spawn {
            program: program.clone(),
            source,
        };
        let started = tokio::task::spawn_blocking(move || start(&spec)).await;
        let started = started.unwrap_or_else(|error| Err(io::Error::other(error)));
        let (child, socket) = started.map_err(failure)?;
        let reaper = Reaper(Some(child));
        let (connection, events) = Connection::new(socket).map_err(failure)?;
        let doing = format!("setting up keeper {}", program.display());
        let (welcome, _) = connection
            .call(&doing, &setup, Vec::new(), SPAWN_LIMIT)
            .await?;
        for warning in &welcome.warnings {
            tracing::warn!(pod = welcome.pod_id, "keeper: {warning}");
        }
        let keeper = settle(connection.into(), None, &dir, welcome, SPAWN_LIMIT).await?;
        drop(reaper);
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
    Ok((child, ours))
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
