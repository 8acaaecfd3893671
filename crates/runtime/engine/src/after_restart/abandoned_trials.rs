//! Removes runtime tests that a killed daemon has left behind.

use std::path::{Path, PathBuf};
use std::time::Duration;

use orlop_launch::{OciRuntime, TRIAL_PREFIX};

use crate::blocking;
use crate::checkpoint::busy;
use crate::error::chain;
use crate::record::directories::remove_tree;

/// Time limit for a runtime to delete a test container.
const LIMIT: Duration = Duration::from_secs(10);

/// Stops and removes the runtime tests that earlier daemons with this state directory left unfinished.
pub async fn end(state: &Path, runtimes: &[OciRuntime]) {
    for bundle in bundles(state) {
        let Some(id) = bundle.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        tracing::info!(id, "stopping a runtime test that an earlier daemon started");
        let at_work = (id.to_owned(), bundle.clone());
        let ended = blocking(move || {
            busy::end(&at_work.0, &at_work.1);
            Ok(())
        });
        if let Err(error) = ended.await {
            tracing::warn!(
                id,
                error = chain(&*error),
                "cannot wait for a runtime that is being tested"
            );
        }
        // The tested runtime is not known. The others do not know the container and do nothing.
        for runtime in runtimes {
            if let Err(error) = runtime.delete(id, LIMIT).await {
                tracing::debug!(id, runtime = runtime.name, %error, "cannot stop a runtime test");
            }
        }
        let removed = bundle.clone();
        if let Err(error) = blocking(move || remove_tree(&removed)).await {
            tracing::warn!(
                id,
                error = chain(&*error),
                "cannot remove the bundle of a runtime test"
            );
        }
    }
}

fn bundles(state: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(state).into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            let name = entry.file_name();
            name.to_str()
                .is_some_and(|name| name.starts_with(TRIAL_PREFIX))
        })
        .map(|entry| entry.path())
        .collect()
}
