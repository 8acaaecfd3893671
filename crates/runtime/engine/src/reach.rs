//! Paths that clients name, on file systems that may not respond.
//!
//! A volume may be on an unreachable file server, served by a program (FUSE), or on a network disk: a
//! thread that touches it blocks in the kernel for an unlimited time. So a thread for the node's own work
//! follows a path only through the node's own file systems. A path on another file system is touched on a
//! thread reserved for that file system, and used only after it has responded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::{BoxFuture, try_join_all};
use orlop_fs::{MountTable, Stranger};
use orlop_pool::Place;
use orlop_text::duration::Timeout;
use tokio::time::timeout;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::off_reactor::{blocking, waiting};

/// Threads that check paths. A file system that does not respond holds four threads; later checks of it
/// wait for those until they time out.
static LOOKING: Place = Place::new("checking paths from requests", 32, 4, 4096);
static WORKING: Place = Place::new("using paths from requests", 64, 16, 4096);

/// Timeout for a response of a file system.
const PATIENCE: Timeout = Timeout::from_secs(10);

/// The longest work on a file system that has responded: writing a large checkpoint.
const LONGEST: Duration = Duration::from_hours(1);

/// A path, and the field of the request that contains it.
#[derive(Debug, Clone)]
pub struct Named {
    field: String,
    path: PathBuf,
}

impl Named {
    /// Creates an entry for a path that is to be touched.
    pub fn new(field: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        let (field, path) = (field.into(), path.into());
        Self { field, path }
    }
}

/// Runs work that touches paths named by clients, on a thread that may block for that long. The error names
/// the paths that do not respond.
pub fn touching<T, F>(config: &Config, named: Vec<Named>, work: F) -> BoxFuture<'static, Result<T>>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T> + Send + 'static,
{
    if named.is_empty() {
        return Box::pin(blocking(work));
    }
    let own = own_roots(config);
    // Nearly all paths are on the node's own file systems: then this is all.
    let looked = blocking(move || {
        let strangers = strangers(&own, named)?;
        if strangers.is_empty() {
            return work().map(Looked::Done);
        }
        Ok(Looked::Strangers(work, strangers))
    });
    Box::pin(async move {
        match looked.await? {
            Looked::Done(done) => Ok(done),
            Looked::Strangers(work, strangers) => with_strangers(strangers, work).await,
        }
    })
}

/// Runs work on such paths that also waits for another party, on `owner`'s share of `place`.
pub fn touching_in<T, F>(
    (place, owner): (&'static Place, String),
    config: &Config,
    named: Vec<Named>,
    work: F,
) -> BoxFuture<'static, Result<T>>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T> + Send + 'static,
{
    let own = own_roots(config);
    Box::pin(async move {
        let strangers = blocking(move || strangers(&own, named)).await?;
        if strangers.is_empty() {
            return waiting(place, &owner, work).await;
        }
        with_strangers(strangers, work).await
    })
}

fn own_roots(config: &Config) -> [PathBuf; 3] {
    let config = config.clone();
    [config.root, config.containers_root, config.state]
}

enum Looked<T, F> {
    Done(T),
    Strangers(F, ByStranger),
}

/// Paths by the foreign file system they are on.
type ByStranger = BTreeMap<Stranger, Vec<Named>>;

fn strangers(own: &[PathBuf], named: Vec<Named>) -> Result<ByStranger> {
    let table = MountTable::now(own).map_err(Error::io("reading the host's mount table"))?;
    let mut found = ByStranger::new();
    for named in named {
        if let Some(stranger) = table.stranger_on_the_way_to(&named.path) {
            found.entry(stranger).or_default().push(named);
        }
    }
    Ok(found)
}

async fn with_strangers<T, F>(strangers: ByStranger, work: F) -> Result<T>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T> + Send + 'static,
{
    // With several file systems, the work may wait for any of them.
    let owner = strangers.keys().next().map(Stranger::id);
    let owner = owner.unwrap_or_default();
    try_join_all(strangers.into_iter().map(answers)).await?;
    let working = waiting(&WORKING, &owner, work);
    timeout(LONGEST, working).await.unwrap_or_else(|_| {
        let problem = format!(
            "the operation did not finish within {LONGEST:?}; it may be waiting for a file system that a \
             path in the request leads to"
        );
        Err(Error::Timeout(problem).into())
    })
}

/// Waits until a file system responds to a look-up of these names, even if they do not exist.
async fn answers((stranger, named): (Stranger, Vec<Named>)) -> Result<()> {
    let paths: Vec<PathBuf> = named.iter().map(|named| named.path.clone()).collect();
    let owner = stranger.id();
    let looking = waiting(&LOOKING, &owner, move || {
        for path in paths {
            let _ = std::fs::metadata(path);
        }
        Ok(())
    });
    match timeout(PATIENCE.get(), looking).await {
        Ok(looked) => looked,
        Err(_) => Err(Error::Timeout(silence(&stranger, &named)).into()),
    }
}

fn silence(stranger: &Stranger, named: &[Named]) -> String {
    let paths = named
        .iter()
        .map(|named| format!("{} ({})", named.path.display(), named.field));
    format!(
        "{}: its file system, {} mounted on {}, did not respond within {PATIENCE:?}; repair or \
         unmount it",
        paths.collect::<Vec<_>>().join(", "),
        stranger.kind,
        Path::new(&stranger.point).display()
    )
}
