//! Gate that decides when a new plugin may receive the node's state.
//!
//! An operation holds the gate from before plugins are asked until its outcome is visible in the state. A new plugin
//! needs a moment without operations. Then each operation is either in the state that it receives, or asks the plugin.
//!
//! ```text
//!            ┌── earlier operations end; new ones pass ──┐
//!  arrives ──┤                                           ├─► closed for a moment ─► gets state, joins
//!            └◄── operations still running: reopened ◄───┘
//! ```
//!
//! So an operation that hangs delays the new plugin but no other operations. Those wait for the moment and for the
//! plugin's answer, but not much longer than for any plugin. Then they pass, and the new plugin must connect again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard, watch};
use tokio::time::{Instant, timeout, timeout_at};

/// Shortest and longest time that the gate is closed while operations may still be running.
const MOMENT: Duration = Duration::from_millis(100);
const LONG_MOMENT: Duration = Duration::from_secs(2);

/// Time limit for a new plugin to wait.
const PATIENCE: Duration = Duration::from_secs(30);

/// The gate. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gate {
    state: Arc<watch::Sender<State>>,
    /// Held by the new plugin that is being admitted.
    turn: Arc<Mutex<()>>,
}

#[derive(Debug, Default)]
struct State {
    /// Running operations, in the order of their arrival.
    under_way: BTreeSet<u64>,
    next: u64,
    closed: bool,
    /// Whether an operation has passed the closed gate.
    overtaken: bool,
}

/// A running operation.
#[derive(Debug)]
pub(crate) struct Pass {
    state: Arc<watch::Sender<State>>,
    number: u64,
}

/// Guard that keeps the gate closed. Only operations that waited too long can pass.
#[derive(Debug)]
pub(crate) struct Closed {
    state: Arc<watch::Sender<State>>,
    _turn: Arc<OwnedMutexGuard<()>>,
}

impl Gate {
    /// Waits until the gate is open, or until `patience` has elapsed, and lets an operation pass.
    pub(crate) async fn pass(&self, patience: Duration) -> Pass {
        let end = Instant::now() + patience;
        let mut seen = self.state.subscribe();
        loop {
            let late = timeout_at(end, seen.wait_for(|state| !state.closed))
                .await
                .is_err();
            let mut number = None;
            self.state.send_if_modified(|state| {
                if state.closed && !late {
                    return false;
                }
                state.overtaken |= state.closed;
                state.under_way.insert(state.next);
                number = Some(state.next);
                state.next += 1;
                // No task waits for an increase of the running operations.
                false
            });
            if let Some(number) = number {
                let state = Arc::clone(&self.state);
                return Pass { state, number };
            }
        }
    }

    /// Closes the gate at a moment without running operations; `None` if there is none for too long.
    pub(crate) async fn close(&self) -> Option<Closed> {
        let end = Instant::now() + PATIENCE;
        let turn = Arc::clone(&self.turn).lock_owned();
        let turn = Arc::new(timeout_at(end, turn).await.ok()?);
        let mut seen = self.state.subscribe();
        let mut moment = MOMENT;
        loop {
            // The current operations end eventually, while others come and go.
            let newest = self.state.borrow().next;
            let ended = seen.wait_for(|state| state.under_way.range(..newest).next().is_none());
            timeout_at(end, ended).await.ok()?.ok()?;
            let closed = Closed::now(&self.state, &turn);
            let quiet = timeout(moment, seen.wait_for(|state| state.under_way.is_empty()));
            if quiet.await.is_ok() {
                return Some(closed);
            }
            moment = LONG_MOMENT.min(moment * 2);
        }
    }
}

impl Closed {
    fn now(state: &Arc<watch::Sender<State>>, turn: &Arc<OwnedMutexGuard<()>>) -> Self {
        state.send_modify(|state| {
            state.closed = true;
            state.overtaken = false;
        });
        Self {
            state: Arc::clone(state),
            _turn: Arc::clone(turn),
        }
    }

    /// Does the work that the gate was closed for, unless an operation has passed it meanwhile.
    pub(crate) fn unless_overtaken<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let mut done = None;
        // No operation can pass during the work.
        self.state.send_if_modified(|state| {
            if !state.overtaken {
                done = Some(work());
            }
            false
        });
        done
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        self.state.send_modify(|state| state.closed = false);
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.state.send_modify(|state| {
            state.under_way.remove(&self.number);
        });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    async fn soon<T>(work: impl Future<Output = T>) -> T {
        timeout(SOON, work).await.unwrap()
    }

    #[tokio::test]
    async fn operations_pass_while_a_new_plugin_waits_for_one_that_hangs() {
        let gate = Gate::default();
        let hangs = gate.pass(SOON).await;
        let new = gate.clone();
        let closing = tokio::spawn(async move { new.close().await });
        // The new plugin is being admitted now.
        soon(async {
            while gate.turn.try_lock().is_ok() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        let began = Instant::now();
        for _ in 0..100 {
            drop(soon(gate.pass(SOON)).await);
        }
        assert!(
            began.elapsed() < Duration::from_secs(1),
            "they wait with it"
        );
        assert!(!closing.is_finished());
        drop(hangs);
        let closed = soon(closing).await.unwrap().unwrap();
        assert_eq!(closed.unless_overtaken(|| 7), Some(7));
    }

    #[tokio::test]
    async fn a_moment_is_found_among_operations_that_never_pause() {
        let gate = Gate::default();
        let mut busy = Vec::new();
        for n in 0..4 {
            let gate = gate.clone();
            busy.push(tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(7 * n)).await;
                loop {
                    let _pass = gate.pass(SOON).await;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        let closed = soon(gate.close()).await.unwrap();
        assert!(gate.state.borrow().under_way.is_empty());
        drop(closed);
        for task in busy {
            task.abort();
        }
    }

    #[tokio::test]
    async fn who_waits_too_long_passes_and_the_new_plugin_comes_again() {
        let gate = Gate::default();
        let closed = soon(gate.close()).await.unwrap();
        let pass = soon(gate.pass(Duration::from_millis(20))).await;
        assert_eq!(closed.unless_overtaken(|| ()), None);
        drop(closed);
        let again = gate.clone();
        let closing = tokio::spawn(async move { again.close().await });
        drop(pass);
        let closed = soon(closing).await.unwrap().unwrap();
        assert_eq!(closed.unless_overtaken(|| ()), Some(()));
        drop(closed);
        drop(soon(gate.pass(SOON)).await);
    }
}
