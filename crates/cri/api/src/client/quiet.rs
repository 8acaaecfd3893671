//! Says the same thing about the same object only once a minute.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Beyond this many objects the oldest are forgotten (and their errors may be said once more).
const MOST_REMEMBERED: usize = 4096;

/// Decides whether an error is worth a line in the log: a new one always, the same one for the
/// same object once per interval. A caller that asks every second doesn't drown what matters.
#[derive(Debug)]
pub struct Quiet {
    interval: Duration,
    said: Mutex<HashMap<String, (String, Instant)>>,
}

impl Default for Quiet {
    fn default() -> Self {
        Self::new(Duration::from_mins(1))
    }
}

impl Quiet {
    /// The same error is said again after `interval`.
    pub fn new(interval: Duration) -> Self {
        Self {
            interval,
            said: Mutex::default(),
        }
    }

    /// Whether to say `message` about `object` now.
    pub fn worth_saying(&self, object: &str, message: &str) -> bool {
        let now = Instant::now();
        let mut said = self.said.lock();
        if let Some((last, when)) = said.get(object)
            && last == message
            && now.duration_since(*when) < self.interval
        {
            return false;
        }
        if said.len() >= MOST_REMEMBERED && !said.contains_key(object) {
            let interval = self.interval;
            said.retain(|_, (_, when)| now.duration_since(*when) < interval);
            if said.len() >= MOST_REMEMBERED {
                said.clear();
            }
        }
        said.insert(object.to_owned(), (message.to_owned(), now));
        true
    }

    /// Forgets an object: it is well again, or gone.
    pub fn forget(&self, object: &str) {
        self.said.lock().remove(object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_error_is_said_once_per_interval() {
        let quiet = Quiet::default();
        assert!(quiet.worth_saying("c1", "gone"));
        assert!(!quiet.worth_saying("c1", "gone"));
        assert!(quiet.worth_saying("c2", "gone"), "another object");
        assert!(quiet.worth_saying("c1", "broken"), "another error");
        assert!(quiet.worth_saying("c1", "gone"), "it changed in between");
        quiet.forget("c1");
        assert!(quiet.worth_saying("c1", "gone"), "it was well in between");

        let restless = Quiet::new(Duration::ZERO);
        assert!(restless.worth_saying("c1", "gone"));
        assert!(restless.worth_saying("c1", "gone"));
    }

    #[test]
    fn memory_is_bounded() {
        let quiet = Quiet::default();
        for number in 0..3 * MOST_REMEMBERED {
            quiet.worth_saying(&number.to_string(), "gone");
        }
        assert!(quiet.said.lock().len() <= MOST_REMEMBERED);
    }
}
