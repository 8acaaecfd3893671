//! Exponential back-off of container restarts and image pulls.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Timestamp;
use crate::hash::fnv64a;
use crate::pod::{Container, Pod, ResourceList};
use crate::status::PodStatus;

/// The first delay after a container's end or a failed pull.
pub const INITIAL: Duration = Duration::from_secs(10);
/// The longest delay after a container's end or a failed pull.
pub const MAXIMUM: Duration = Duration::from_mins(5);
/// Limit of keys; a new key replaces the oldest.
const MAX_ENTRIES: usize = 16 * 1024;

/// Delays by key that double with each failure. A key without failures for twice the longest delay
/// starts over.
#[derive(Debug, Clone)]
pub struct Backoff {
    initial: Duration,
    maximum: Duration,
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    wait: Duration,
    updated: Timestamp,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new(INITIAL, MAXIMUM)
    }
}

impl Backoff {
    /// Creates a back-off from `initial`, doubled up to `maximum`.
    pub fn new(initial: Duration, maximum: Duration) -> Self {
        Self {
            initial: initial.min(maximum),
            maximum,
            entries: BTreeMap::new(),
        }
    }

    /// Returns when the next attempt is allowed, if that is in the future: a delay after `event`.
    pub fn blocked_until(&self, key: &str, event: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let entry = self.entries.get(key)?;
        if self.is_stale(entry, event) {
            return None;
        }
        Some(event.after(entry.wait)).filter(|until| now < *until)
    }

    /// Returns the same, counted from the last recorded failure.
    pub fn blocked_since_failure(&self, key: &str, now: Timestamp) -> Option<Timestamp> {
        let entry = self.entries.get(key)?;
        if self.is_stale(entry, now) {
            return None;
        }
        Some(entry.updated.after(entry.wait)).filter(|until| now < *until)
    }

    /// Records an attempt or a failure, which increases the next delay.
    pub fn next(&mut self, key: &str, event: Timestamp, now: Timestamp) {
        let wait = match self.entries.get(key) {
            Some(entry) if !self.is_stale(entry, event) => {
                entry.wait.saturating_mul(2).min(self.maximum)
            }
            _ => self.initial,
        };
        if self.entries.len() >= MAX_ENTRIES && !self.entries.contains_key(key) {
            self.drop_oldest();
        }
        self.entries
            .insert(key.to_owned(), Entry { wait, updated: now });
    }

    /// Removes a key, for example after a success.
    pub fn reset(&mut self, key: &str) {
        self.entries.remove(key);
    }

    /// Removes all keys without failures for twice the longest delay.
    pub fn collect_garbage(&mut self, now: Timestamp) {
        let quiet = self.maximum.saturating_mul(2);
        self.entries
            .retain(|_, entry| now.since(entry.updated) <= quiet);
    }

    fn is_stale(&self, entry: &Entry, event: Timestamp) -> bool {
        event.since(entry.updated) > self.maximum.saturating_mul(2)
    }

    fn drop_oldest(&mut self) {
        let oldest = self
            .entries
            .iter()
            .min_by_key(|(_, entry)| entry.updated)
            .map(|(key, _)| key.clone());
        if let Some(key) = oldest {
            self.entries.remove(&key);
        }
    }
}

/// Checks whether a container may start; the error is the time to wait for. An allowed start is
/// recorded, so that the next delay is longer.
pub fn container_start(
    backoff: &mut Backoff,
    pod: &Pod,
    container: &Container,
    status: &PodStatus,
    now: Timestamp,
) -> Result<(), Timestamp> {
    let Some(finished) = status
        .newest_exited(&container.name)
        .and_then(|s| s.finished_at)
    else {
        return Ok(());
    };
    let key = container_key(pod, container);
    if let Some(until) = backoff.blocked_until(&key, finished, now) {
        return Err(until);
    }
    backoff.next(&key, finished, now);
    Ok(())
}

/// Returns the key of a container: another image or other resources reset the back-off.
pub fn container_key(pod: &Pod, container: &Container) -> String {
    let list = |list: &ResourceList| {
        let amounts: Vec<_> = list.iter().map(|(k, v)| format!("{k}={v}")).collect();
        amounts.join(",")
    };
    let parts = [
        pod.metadata.name.as_str(),
        &pod.metadata.namespace,
        &pod.metadata.uid,
        &container.name,
        &container.image,
        &list(&container.resources.limits),
        &list(&container.resources.requests),
    ];
    format!("{:x}", fnv64a(parts.join("/").as_bytes()))
}

/// Returns the key for pulling an image for a pod.
pub fn image_key(pod: &Pod, image: &str) -> String {
    format!("{}_{image}", pod.metadata.uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::ContainerStatus;
    use crate::table::{container, exited};

    #[test]
    fn a_crash_loop_waits_10_20_40_up_to_300_seconds() {
        let mut pod = Pod::default();
        pod.metadata.uid = "u".to_owned();
        let c = container("c");
        let mut backoff = Backoff::default();
        let mut now = Timestamp::from_secs(1000);
        for (crash, expected) in [0, 10, 20, 40, 80, 160, 300, 300].into_iter().enumerate() {
            let ended = ContainerStatus {
                finished_at: Some(now),
                ..exited("c", 1)
            };
            let status = PodStatus::new(Vec::new(), vec![ended]);
            let allowed = now.after(Duration::from_secs(expected));
            if expected > 0 {
                assert_eq!(
                    container_start(&mut backoff, &pod, &c, &status, now),
                    Err(allowed),
                    "crash {crash}"
                );
            }
            assert_eq!(
                container_start(&mut backoff, &pod, &c, &status, allowed),
                Ok(()),
                "crash {crash}"
            );
            now = allowed;
        }
    }

    #[test]
    fn ten_quiet_minutes_forgive() {
        let mut backoff = Backoff::default();
        let start = Timestamp::from_secs(0);
        backoff.next("k", start, start);
        backoff.next("k", start, start);
        for (secs, blocked) in [(599, true), (601, false)] {
            let event = Timestamp::from_secs(secs);
            assert_eq!(backoff.blocked_until("k", event, event).is_some(), blocked);
        }
        let later = Timestamp::from_secs(601);
        backoff.next("k", later, later);
        assert_eq!(
            backoff.blocked_since_failure("k", later),
            Some(Timestamp::from_secs(611))
        );
        backoff.collect_garbage(Timestamp::from_secs(1300));
        assert!(backoff.entries.is_empty());
    }

    #[test]
    fn another_image_or_other_resources_begin_anew() {
        let pod = Pod::default();
        let c = container("c");
        let mut image = c.clone();
        image.image.push('x');
        let mut resources = c.clone();
        resources
            .resources
            .limits
            .insert("cpu".to_owned(), crate::pod::Quantity::from_units(1));
        let mut args = c.clone();
        args.args.push("x".to_owned());
        let key = |c| container_key(&pod, c);
        assert_ne!(key(&c), key(&image));
        assert_ne!(key(&c), key(&resources));
        assert_eq!(key(&c), key(&args));
    }
}
