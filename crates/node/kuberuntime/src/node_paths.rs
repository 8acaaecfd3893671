//! Access to host paths on file systems that may not respond.
//!
//! A hostPath can lie on an unreachable file server or on FUSE, where each access can block in the
//! kernel forever. Paths on the node's own file systems are accessed on the shared blocking
//! threads. Each other file system has its own threads, and a timeout is reported for the pod.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::{BoxFuture, try_join_all};
use orlop_fs::{MountTable, Stranger};
use orlop_pool::Place;
use orlop_pool::blocking;
use tokio::time::timeout;

/// A file system that does not respond occupies at most four threads; further requests wait for
/// them until they time out.
static LOOKING: Place = Place::new("checking host paths", 32, 4, 4096);
static WORKING: Place = Place::new("using host paths", 32, 4, 4096);

/// Timeout for the file system to respond, and again for the work on it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Paths by the file system they lie on.
type ByStranger = BTreeMap<Stranger, Vec<PathBuf>>;

enum Looked<T, F> {
    Done(T),
    Strangers(F, ByStranger),
}

/// Runs blocking work that accesses `paths`; `own` are directories on the node's own file systems.
/// If a file system does not respond, the error names the path and the mount point.
pub(crate) fn touching<T, F>(
    own: &[PathBuf],
    paths: Vec<PathBuf>,
    work: F,
) -> BoxFuture<'static, Result<T, String>>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    if paths.is_empty() {
        return Box::pin(async { blocking(work).await.map_err(|e| e.to_string()) });
    }
    let own = own.to_vec();
    // Nearly all paths lie on the node's own file systems: then the work is done here.
    let look = move || {
        let strangers = strangers(&own, paths)?;
        if strangers.is_empty() {
            return Ok(Looked::Done(work()));
        }
        Ok::<_, String>(Looked::Strangers(work, strangers))
    };
    Box::pin(async {
        match blocking(look).await.map_err(|e| e.to_string())?? {
            Looked::Done(done) => Ok(done),
            Looked::Strangers(work, strangers) => with_strangers(strangers, work).await,
        }
    })
}

fn strangers(own: &[PathBuf], paths: Vec<PathBuf>) -> Result<ByStranger, String> {
    let table =
        MountTable::now(own).map_err(|e| format!("cannot read the mounts of the host: {e}"))?;
    let mut found = ByStranger::new();
    for path in paths {
        if let Some(stranger) = table.stranger_on_the_way_to(&path) {
            found.entry(stranger).or_default().push(path);
        }
    }
    Ok(found)
}

async fn with_strangers<T, F>(strangers: ByStranger, work: F) -> Result<T, String>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    // With several file systems, the work may block on any of them.
    let owner = strangers.keys().next().map(Stranger::id);
    let owner = owner.unwrap_or_default();
    let all: Vec<PathBuf> = strangers.values().flatten().cloned().collect();
    try_join_all(strangers.into_iter().map(answers)).await?;
    match timeout(PATIENCE, WORKING.run_for(&owner, work)).await {
        Ok(done) => done.map_err(|refused| refused.to_string()),
        Err(_) => Err(format!(
            "{}: the file system no longer responds; repair or unmount it",
            listed(&all)
        )),
    }
}

/// Waits until a file system responds to `stat` on these paths, with any result.
async fn answers((stranger, paths): (Stranger, Vec<PathBuf>)) -> Result<(), String> {
    let named = listed(&paths);
    let owner = stranger.id();
    let looking = LOOKING.run_for(&owner, move || {
        for path in paths {
            let _ = std::fs::metadata(path);
        }
    });
    match timeout(PATIENCE, looking).await {
        Ok(looked) => looked.map_err(|refused| format!("{named}: {refused}")),
        Err(_) => Err(format!(
            "{named}: the file system ({} mounted on {}) has not responded for {PATIENCE:?}; \
             repair or unmount it",
            stranger.kind,
            stranger.point.display()
        )),
    }
}

fn listed(paths: &[PathBuf]) -> String {
    let paths = paths.iter().map(|path| path.display().to_string());
    paths.collect::<Vec<_>>().join(", ")
}
