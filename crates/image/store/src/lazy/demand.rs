//! Tracks whether readers wait for lazy layers, so that background downloads run only when none do.

use std::time::{Duration, Instant};

use tokio::sync::watch;

/// Background downloads start after this time without demand. A process that reads one file after another pauses only
/// briefly between reads, and must not find the connection busy.
const QUIET: Duration = Duration::from_millis(200);

/// Counter of the fetches that a reader waits for.
#[derive(Debug, Default)]
pub(super) struct Demand(watch::Sender<State>);

#[derive(Debug, Clone, Copy, Default)]
struct State {
    count: usize,
    /// The time of the last demand.
    last: Option<Instant>,
}

/// A waiting reader, which counts until this is dropped.
pub(super) struct Wanted(watch::Sender<State>);

impl Demand {
    /// Registers a reader that waits.
    pub(super) fn wanted(&self) -> Wanted {
        self.0.send_modify(|state| state.count += 1);
        Wanted(self.0.clone())
    }

    /// Announces that reads will follow soon.
    pub(super) fn expected(&self) {
        self.0
            .send_modify(|state| state.last = Some(Instant::now()));
    }

    /// Waits until there was no demand for [`QUIET`].
    pub(super) async fn quiet(&self) {
        let mut changes = self.0.subscribe();
        loop {
            // The sender lives as long as `self`.
            let state = changes.wait_for(|state| state.count == 0).await;
            let last = state.ok().and_then(|state| state.last);
            let left = last.map_or(Duration::ZERO, |last| QUIET.saturating_sub(last.elapsed()));
            if left.is_zero() {
                return;
            }
            let again = changes.wait_for(|state| state.count > 0);
            // The loop checks again in both cases.
            let _ = tokio::time::timeout(left, again).await;
        }
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.send_modify(|state| {
            state.count = state.count.saturating_sub(1);
            state.last = Some(Instant::now());
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nobody_gets_a_turn_between_two_that_are_wanted() {
        let demand = Demand::default();
        let begin = Instant::now();
        demand.quiet().await;
        assert!(
            begin.elapsed() < QUIET,
            "who never wanted anything holds nobody up"
        );
        let mut quiet = Box::pin(demand.quiet());
        for _ in 0..4 {
            let wanted = demand.wanted();
            tokio::time::sleep(QUIET / 4).await;
            drop(wanted);
            let turn = tokio::time::timeout(QUIET / 4, &mut quiet).await;
            assert!(turn.is_err(), "others got a turn in between");
        }
        let last = Instant::now();
        quiet.await;
        assert!(last.elapsed() >= QUIET / 2, "others got their turn at once");
        demand.expected();
        let turn = tokio::time::timeout(QUIET / 4, demand.quiet()).await;
        assert!(turn.is_err(), "who is expected is not waited for");
    }
}
