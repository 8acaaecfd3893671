//! Common parts of `rm` and `rmp`: selection of objects, and a stop of running ones if allowed.

use anyhow::{Context, bail};

use crate::families::side_by_side;

/// A kind of objects that can be removed.
pub(crate) trait Removable {
    /// Name of the kind of object.
    const NAME: &'static str;
    /// Status of an object.
    type Status;

    /// Returns the IDs of all objects.
    async fn all(&self) -> anyhow::Result<Vec<String>>;
    /// Resolves arguments to IDs.
    async fn find(&self, words: &[String]) -> anyhow::Result<Vec<String>>;
    async fn status(&self, id: &str) -> anyhow::Result<Self::Status>;
    fn runs(status: &Self::Status) -> bool;
    async fn stop(&self, id: &str) -> anyhow::Result<()>;
    async fn remove(&self, id: &str) -> anyhow::Result<()>;
    /// Prints and cleans up after an object was removed.
    fn removed(&self, id: &str, status: &Self::Status) -> anyhow::Result<()>;
}

/// Selected objects.
pub(crate) struct Chosen<'a> {
    pub(crate) words: &'a [String],
    pub(crate) all: bool,
    /// Also remove running ones.
    pub(crate) force: bool,
}

/// Removes the objects concurrently.
pub(crate) async fn remove<K: Removable>(kind: &K, chosen: Chosen<'_>) -> anyhow::Result<()> {
    let ids = if chosen.all {
        kind.all().await?
    } else {
        kind.find(chosen.words).await?
    };
    if ids.is_empty() {
        say!("no {} to remove", K::NAME);
    }
    side_by_side::each(ids, |id| one(kind, id, chosen.force)).await
}

async fn one<K: Removable>(kind: &K, id: String, force: bool) -> anyhow::Result<()> {
    let name = K::NAME;
    let status = kind.status(&id).await;
    let status = status.with_context(|| format!("cannot get the status of {name} {id}"))?;
    if K::runs(&status) {
        if !force {
            bail!("{name} {id} is running; stop it first, or use --force");
        }
        let stopped = kind.stop(&id).await;
        stopped.with_context(|| format!("cannot stop {name} {id}"))?;
    }
    let removed = kind.remove(&id).await;
    removed.with_context(|| format!("cannot remove {name} {id}"))?;
    kind.removed(&id, &status)
}
