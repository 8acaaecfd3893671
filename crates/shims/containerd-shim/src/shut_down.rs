//! Shutdown of the server.

use std::sync::Arc;
use std::time::Duration;

use crate::log::log;
use crate::shim::Shim;

/// Ends this process and the pod's keeper, if no task is left.
pub(crate) fn shut_down(shim: &Arc<Shim>, then: impl FnOnce()) {
    // A process that starts a server here waits for this lock.
    let locked = shim.place.lock();
    let is_idle = shim.tasks.lock().0.is_empty();
    if !is_idle {
        return then();
    }
    let _ = std::fs::remove_file(shim.place.socket());
    if let Some(keeper) = shim.take_keeper() {
        keeper.end();
    }
    shim.unmake_pod();
    then();
    shim.publisher.flush(Duration::from_secs(5));
    if let Err(status) = shim.place.remove() {
        log(&status.message);
    }
    drop(locked);
    std::process::exit(0);
}
