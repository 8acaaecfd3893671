//! Progress of a listener through the events.

use std::time::{Duration, Instant};

/// Events that were sent this shortly before a subscription ended may not have arrived, and are sent again.
const OVERLAP: Duration = Duration::from_secs(1);

/// The events sent to a listener, and which of them are so recent that they may not have arrived. Only the time of
/// sending counts.
#[derive(Debug)]
pub(super) struct Taken {
    /// The number of the first event that is not sent.
    next: u64,
    last: Instant,
    /// The time of the last mark, and the next number at that time.
    mark: (Instant, u64),
    /// The first event that may not have arrived at the time of the mark.
    before: u64,
}

impl Taken {
    /// Creates the state of a listener that starts at a number.
    pub(super) fn nothing(first: u64, now: Instant) -> Self {
        Self {
            next: first,
            last: now,
            mark: (now, first),
            before: first,
        }
    }

    /// Records that all events before a number are sent.
    pub(super) fn hand_over(&mut self, next: u64, now: Instant) {
        if is_settled(self.mark.0, now) {
            self.before = self.first_unsure(now);
            self.mark = (now, self.next);
        }
        self.next = next;
        self.last = now;
    }

    /// Returns the first event that may not have arrived. It was sent within the overlap, or within twice the overlap
    /// if events keep coming.
    pub(super) fn first_unsure(&self, now: Instant) -> u64 {
        if is_settled(self.last, now) {
            self.next
        } else if is_settled(self.mark.0, now) {
            self.mark.1
        } else {
            self.before
        }
    }
}

fn is_settled(then: Instant, now: Instant) -> bool {
    now.saturating_duration_since(then) > OVERLAP
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_handed_over_within_a_second_may_not_have_arrived() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let mut taken = Taken::nothing(5, start);
        assert_eq!(taken.first_unsure(after(60_000)), 5);
        taken.hand_over(6, after(60_000));
        taken.hand_over(7, after(60_900));
        assert_eq!(taken.first_unsure(after(60_950)), 5);
        assert_eq!(taken.first_unsure(after(61_900)), 5, "7 is of 60.9");
        assert_eq!(taken.first_unsure(after(61_901)), 7);
        // Events from long before a burst have arrived.
        taken.hand_over(8, after(90_000));
        assert_eq!(taken.first_unsure(after(90_001)), 7);
        // Without idle times, events from two seconds before have arrived.
        for n in 0..100_u64 {
            let now = after(90_000 + n * 100);
            taken.hand_over(9 + n, now);
            let of_last_second = (8 + n).saturating_sub(10).max(7);
            let unsure = taken.first_unsure(now);
            assert!(unsure <= of_last_second, "{unsure} at {n}");
            assert!(unsure + 12 >= of_last_second, "{unsure} at {n}");
        }
    }
}
