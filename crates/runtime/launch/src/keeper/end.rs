//! Reliable stop of a keeper, and removal of its directory afterwards.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use orlop_text::duration::Timeout;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, open, stat};
use rustix::io::Errno;
use tokio::time::{Instant, sleep, timeout};

use super::client::Keeper;
use super::find::{FoundKeeper, GREETING_LIMIT};
use super::spawn::SPAWN_LIMIT;
use crate::blocking::blocking;
use crate::error::{Error, Result};

/// Time for a keeper to shut down, after which it is killed.
const SHUTDOWN_LIMIT: Timeout = Timeout::from_secs(15);

/// Time to wait for a keeper after SIGKILL; one that remains longer is blocked in the kernel.
const KILL_LIMIT: Timeout = Timeout::from_secs(10);

/// Time to wait for the lock of a pod's directory, which a keeper holds only during its setup.
const LOCK_LIMIT: Duration = SPAWN_LIMIT.saturating_add(Duration::from_secs(5));

/// Time for a keeper to exit after its connection has closed; one that takes longer hangs.
const LAST_STEPS: Duration = Duration::from_secs(1);

/// Pause between two attempts to reach a keeper or lock its directory.
const AGAIN: Duration = Duration::from_millis(20);

impl Keeper {
    /// Kills the pod's remaining processes, and stops the keeper, which ends the pod's namespaces. Kills a keeper that
    /// does not shut down. The keeper is gone when this returns.
    pub async fn end(&self) -> Result<()> {
        let asked = timeout(SHUTDOWN_LIMIT.get(), async {
            self.ask_to_end().await?;
            self.ended().await;
            Ok(())
        });
        let problem = match asked.await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(_)) if self.has_ended() => return Ok(()),
            Ok(Err(error)) => Error::to_string(&error),
            Err(_) => format!("it still runs after {SHUTDOWN_LIMIT:?}"),
        };
        let pod = self.pod_id();
        tracing::error!(
            pod,
            problem,
            "the pod's keeper did not shut down; killing it"
        );
        self.kill_itself()
            .map_err(|source| failure(self.dir(), source))?;
        killed(self.ended(), self.dir()).await
    }

    async fn ask_to_end(&self) -> Result<()> {
        match self.tell_to_end().await {
            // Perhaps only the connection was lost.
            Err(Error::Gone { .. }) => {}
            told => return told,
        }
        let told = match Keeper::connect(self.dir()).await {
            Ok((keeper, _)) => keeper.tell_to_end().await,
            Err(error) if error.is_nobody() => Ok(()),
            Err(error) => Err(error),
        };
        if told.as_ref().is_err_and(Error::is_gone) {
            // The connections close a moment before the process exits.
            let _ = timeout(LAST_STEPS, self.ended()).await;
        }
        told
    }
}

/// Stops the keeper in a pod's directory, if there is one; it is gone when this returns.
pub async fn end_keeper(dir: &Path) -> Result<()> {
    match Lock::take(dir).await? {
        Some(lock) => end_in(dir, &lock).await,
        None => Ok(()),
    }
}

/// Removes a pod's directory after stopping its keeper. No new keeper can begin to use it: it locks the directory
/// before it listens there, and fails if the directory is gone.
pub async fn remove_pod_dir(dir: &Path) -> Result<()> {
    let Some(lock) = Lock::take(dir).await? else {
        return Ok(());
    };
    end_in(dir, &lock).await?;
    let removed = dir.to_owned();
    let removed = blocking(move || orlop_fs::remove_tree(&removed)).await;
    drop(lock);
    removed.map_err(|source| Error::File {
        doing: "removing the pod's directory",
        path: dir.to_owned(),
        source,
    })
}

/// Stops the keeper in a locked directory, where no other can begin to listen.
async fn end_in(dir: &Path, _: &Lock) -> Result<()> {
    let deadline = Instant::now() + SHUTDOWN_LIMIT.get();
    let mut found = loop {
        match Keeper::find(dir) {
            Ok(found) => break found,
            Err(error) if error.is_nobody() => return Ok(()),
            // Its listen queue is full, or it has just exited.
            Err(error) if Instant::now() >= deadline => return Err(error),
            Err(_) => sleep(AGAIN).await,
        }
    };
    match found.greet(GREETING_LIMIT).await {
        Ok((keeper, _)) => keeper.end().await,
        Err(error) => {
            tracing::error!(dir = %dir.display(), %error, "a keeper does not respond; killing it");
            found.kill().map_err(|source| failure(dir, source))?;
            killed(FoundKeeper::ended(&found), dir).await
        }
    }
}

async fn killed(ended: impl Future<Output = ()>, dir: &Path) -> Result<()> {
    timeout(KILL_LIMIT.get(), ended).await.map_err(|_| {
        let problem = format!("it still runs {KILL_LIMIT:?} after SIGKILL");
        failure(dir, io::Error::other(problem))
    })
}

fn failure(dir: &Path, source: io::Error) -> Error {
    Error::File {
        doing: "stopping the keeper in",
        path: dir.to_owned(),
        source,
    }
}

/// The lock of a pod's directory.
struct Lock {
    _dir: OwnedFd,
}

impl Lock {
    /// Waits for the lock; `None` if the directory is gone.
    async fn take(dir: &Path) -> Result<Option<Self>> {
        let deadline = Instant::now() + LOCK_LIMIT;
        loop {
            match try_lock(dir) {
                Ok(Some(held)) => return Ok(Some(Self { _dir: held })),
                Err(Errno::NOENT) => return Ok(None),
                Ok(None) | Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < deadline => {
                    sleep(AGAIN).await;
                }
                refused => {
                    let source = refused.err().unwrap_or(Errno::STALE).into();
                    return Err(Error::File {
                        doing: "locking the pod's directory",
                        path: dir.to_owned(),
                        source,
                    });
                }
            }
        }
    }
}

/// Locks a directory; returns `None` if the path names another directory by now.
fn try_lock(dir: &Path) -> rustix::io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let held = open(dir, flags, Mode::empty())?;
    flock(&held, FlockOperation::NonBlockingLockExclusive)?;
    let (own, named) = (fstat(&held)?, stat(dir)?);
    Ok(((own.st_dev, own.st_ino) == (named.st_dev, named.st_ino)).then_some(held))
}
