//! What `rm` and `rmp` have in common: which things, and that what runs is stopped first, if it
//! may be.

use anyhow::{Context, bail};

use crate::families::side_by_side;

/// A kind of things that can be removed.
pub(crate) trait Removable {
    /// What one of them is called.
    const NAME: &'static str;
    /// What the runtime tells of one.
    type Status;

    /// The ids of all.
    async fn all(&self) -> anyhow::Result<Vec<String>>;
    /// The ids that words mean.
    async fn find(&self, words: &[String]) -> anyhow::Result<Vec<String>>;
    async fn status(&self, id: &str) -> anyhow::Result<Self::Status>;
    fn runs(status: &Self::Status) -> bool;
    async fn stop(&self, id: &str) -> anyhow::Result<()>;
    async fn remove(&self, id: &str) -> anyhow::Result<()>;
    /// What is to be said and done once one is gone.
    fn removed(&self, id: &str, status: &Self::Status) -> anyhow::Result<()>;
}

/// Which of them.
pub(crate) struct Chosen<'a> {
    pub(crate) words: &'a [String],
    pub(crate) all: bool,
    /// Those that run as well.
    pub(crate) force: bool,
}

/// Removes them side by side.
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
