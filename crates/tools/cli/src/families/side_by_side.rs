//! Concurrent execution of the same operation on several objects.

use std::future::Future;

use anyhow::{anyhow, bail};
use futures_util::stream::{self, StreamExt};

/// Maximum number of concurrent calls.
const AT_ONCE: usize = 16;

/// Runs the operation for each item concurrently, and returns all errors.
pub(crate) async fn each<T, F>(
    things: impl IntoIterator<Item = T>,
    action: impl Fn(T) -> F,
) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>>,
{
    let results: Vec<_> = stream::iter(things)
        .map(action)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    errors(results)
}

/// Combines several results into one with all errors.
pub(crate) fn errors(results: Vec<anyhow::Result<()>>) -> anyhow::Result<()> {
    let mut failed: Vec<_> = results.into_iter().filter_map(Result::err).collect();
    match failed.len() {
        0 => Ok(()),
        1 => Err(failed
            .pop()
            .unwrap_or_else(|| anyhow!("the operation failed"))),
        _ => {
            let lines: Vec<String> = failed.iter().map(|error| format!("{error:#}")).collect();
            bail!("{}", lines.join("\n"))
        }
    }
}
