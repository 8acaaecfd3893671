//! When a new plugin may be told the node's state.
//!
//! Operations hold the gate from before plugins are asked until their outcome can be seen. A new
//! plugin must meet a moment without any: then each is either in what it is told, or asks it.
//!
//! ```text
//!            ┌── those that were there go on; new ones pass ──┐
//!  arrives ──┤                                                ├─► closed, for a moment ─► told, takes part
//!            └◄── somebody is under way still: open again ◄───┘
//! ```
//!
//! So an operation that hangs keeps the new plugin waiting and not the other operations. Those
//! wait for a moment, and for what the plugin takes to answer, but not much longer than for any
//! plugin: then they pass, and the new one has to come again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard, watch};
use tokio::time::{Instant, timeout, timeout_at};

/// How long it is closed at first while somebody may be under way still, and at last.
const MOMENT: Duration = Duration::from_millis(100);
const LONG_MOMENT: Duration = Duration::from_secs(2);

/// How long a new plugin waits in all.
const PATIENCE: Duration = Duration::from_secs(30);

/// The gate. Clones are one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gate {
    state: Arc<watch::Sender<State>>,
    /// Held by the new plugin whose turn it is.
    turn: Arc<Mutex<()>>,
}

#[derive(Debug, Default)]
struct State {
    /// Operations by the order in which they came.
    under_way: BTreeSet<u64>,
    next: u64,
    closed: bool,
    /// Whether an operation passed since it was closed.
    overtaken: bool,
}

/// An operation that is under way.
#[derive(Debug)]
pub(crate) struct Pass {
    state: Arc<watch::Sender<State>>,
    number: u64,
}

/// While it is held, no operation is under way but those that waited too long.
#[derive(Debug)]
pub(crate) struct Closed {
    state: Arc<watch::Sender<State>>,
    _turn: Arc<OwnedMutexGuard<()>>,
}

impl Gate {
    /// Lets an operation through, after so long even if it is closed.
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
                // Nobody waits for more to be under way.
                false
            });
            if let Some(number) = number {
                let state = Arc::clone(&self.state);
                return Pass { state, number };
            }
        }
    }

    /// Closes it at a moment when no operation is under way; `None` where there is none for long.
    pub(crate) async fn close(&self) -> Option<Closed> {
        let end = Instant::now() + PATIENCE;
        let turn = Arc::clone(&self.turn).lock_owned();
        let turn = Arc::new(timeout_at(end, turn).await.ok()?);
        let mut seen = self.state.subscribe();
        let mut moment = MOMENT;
        loop {
            // Those that are there now end by themselves, while others come and go.
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

    /// Does what the gate was closed for, unless an operation has passed it since.
    pub(crate) fn unless_overtaken<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let mut done = None;
        // No operation passes meanwhile.
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
        // It has its turn now.
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
