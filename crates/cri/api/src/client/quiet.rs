//! Rate limit of log messages: the same message about the same object at most once a minute.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Maximum number of remembered objects. The oldest are dropped beyond that, so their errors may be logged again.
const MOST_REMEMBERED: usize = 4096;

/// Decides whether to log an error: a new one always, the same error of the same object once per interval. A caller
/// that polls every second therefore does not flood the log.
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
    /// Creates a limit that allows the same error again after `interval`.
    pub fn new(interval: Duration) -> Self {
        Self {
            interval,
            said: Mutex::default(),
        }
    }

    /// Whether to log `message` about `object` now.
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

    /// Drops the state of an object that has recovered or is gone.
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
