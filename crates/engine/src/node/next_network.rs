//! The network namespace of the pod that comes next, made after the one before.
//!
//! Pods come in bursts, and making a namespace is a good part of what a pod waits for. It is kept for a moment only:
//! later ones are to have what the node's kernel parameters say by then.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use orlop_network::netns::Held;
use parking_lot::Mutex;
use tokio_util::task::TaskTracker;

use crate::blocking;
use crate::error::Error;

/// How long one is kept for a pod that may never come.
const KEPT: Duration = Duration::from_secs(2);

/// A namespace that is there already, or none.
#[derive(Debug, Default)]
pub struct NextNetwork {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    held: Option<Held>,
    /// How many were asked for so far.
    turn: u64,
}

impl NextNetwork {
    /// The one that is there, or a new one.
    pub fn take(&self) -> io::Result<Held> {
        let held = self.kept.lock().held.take();
        held.map_or_else(Held::new, Ok)
    }

    /// Has one made for the next pod, unless there is one. Nobody waits for it, and a failure only costs time.
    pub fn make_ready(self: &Arc<Self>, tasks: &TaskTracker) {
        let turn = {
            let mut kept = self.kept.lock();
            kept.turn += 1;
            kept.turn
        };
        let next = Arc::clone(self);
        tasks.spawn(async move {
            let own = Arc::clone(&next);
            let made = blocking(move || {
                let is_there = own.kept.lock().held.is_some();
                if !is_there {
                    let doing = "making a network namespace ahead of its pod";
                    let held = Held::new().map_err(Error::io(doing))?;
                    own.kept.lock().held = Some(held);
                }
                Ok(())
            });
            if let Err(error) = made.await {
                tracing::debug!(%error, "the next pod makes its namespace itself");
                return;
            }
            tokio::time::sleep(KEPT).await;
            let mut kept = next.kept.lock();
            if kept.turn == turn {
                kept.held = None;
            }
        });
    }
}
