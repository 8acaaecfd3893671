//! Names and IDs of existing objects for completion.

use std::time::Duration;

use super::candidates::{Candidates, offered};
use super::words::{Kind, Wanted};
use crate::reactor;

/// Timeout: a user who presses the tab key does not wait long.
const PATIENCE: Duration = Duration::from_millis(800);

/// Returns names and IDs with descriptions; none if the runtime does not respond.
pub(super) fn find(wanted: &Wanted) -> Vec<(String, String)> {
    let asked = |kind: &Kind| wanted.kinds.contains(kind);
    let candidates = Candidates {
        containers: asked(&Kind::Container),
        pods: asked(&Kind::Pod),
        images: asked(&Kind::Image),
        handlers: asked(&Kind::Handler),
        command: wanted.path.last().cloned().unwrap_or_default(),
        begun: wanted.begun.clone(),
    };
    if !candidates.any() {
        return Vec::new();
    }
    let Ok(runtime) = reactor::client() else {
        return Vec::new();
    };
    let (endpoint, config) = (wanted.endpoint.clone(), wanted.config.clone());
    let found = runtime.block_on(async {
        tokio::time::timeout(PATIENCE, offered(endpoint, config, &candidates)).await
    });
    runtime.shutdown_background();
    found.ok().and_then(Result::ok).unwrap_or_default()
}
