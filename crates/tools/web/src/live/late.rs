//! Objects for which calls to the endpoint time out.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// Pause before the next call: the first one, and the limit after repeated timeouts.
const AT_FIRST: Duration = Duration::from_secs(30);
const AT_MOST: Duration = Duration::from_mins(8);

/// Objects that are skipped for a while. Each sample waits for at most one timeout.
#[derive(Debug, Default)]
pub(super) struct Late {
    /// Time of the last timeout of each object, and the pause since then.
    things: HashMap<String, (Instant, Duration)>,
    /// Whether a call timed out in this sample.
    is_now: bool,
}

impl Late {
    /// Starts a sample. Objects that no longer exist are forgotten.
    pub(super) fn begin(&mut self, is_there: impl Fn(&str) -> bool) {
        self.is_now = false;
        self.things.retain(|id, _| is_there(id));
    }

    /// Returns whether to call for an object.
    pub(super) fn may_ask(&self, id: &str) -> bool {
        let is_left = |(when, pause): &(Instant, Duration)| when.elapsed() < *pause;
        !self.is_now && !self.things.get(id).is_some_and(is_left)
    }

    /// Records a timeout, possibly a repeated one.
    pub(super) fn note(&mut self, id: &str) {
        self.is_now = true;
        let before = self.things.get(id);
        let pause = before.map_or(AT_FIRST, |(_, pause)| (*pause * 2).min(AT_MOST));
        self.things.insert(id.to_owned(), (Instant::now(), pause));
    }

    /// Records a response in time.
    pub(super) fn forget(&mut self, id: &str) {
        self.things.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Moves the last timeout of an object into the past.
    fn age(late: &mut Late, id: &str, by: Duration) {
        let (when, _) = late.things.get_mut(id).unwrap();
        *when = when.checked_sub(by).unwrap();
    }

    #[test]
    fn what_is_late_is_asked_about_again_after_thirty_seconds_and_then_later_and_later() {
        let mut late = Late::default();
        let second = Duration::from_secs(1);
        let mut pause = Duration::from_secs(30);
        for _ in 0..10 {
            late.note("slow");
            assert!(!late.may_ask("other"), "nothing more in the same look");
            late.begin(|_| true);
            assert!(late.may_ask("other"));
            age(&mut late, "slow", pause.saturating_sub(second));
            assert!(!late.may_ask("slow"), "within {pause:?}");
            age(&mut late, "slow", second);
            assert!(late.may_ask("slow"), "after {pause:?}");
            pause = (pause * 2).min(Duration::from_mins(8));
        }
        late.begin(|id| id != "slow");
        assert!(late.things.is_empty());
    }
}
