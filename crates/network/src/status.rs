//! Readiness of the node's network, with a cache and a grace period.

use std::time::{Duration, Instant};

/// Whether pods can be attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// Pods can be attached.
    Ready {
        /// Problems that do not prevent attachments: broken files, a temporary failure.
        warnings: Vec<String>,
    },
    /// Pods cannot be attached.
    NotReady {
        /// A single word, as in a node condition's reason.
        reason: &'static str,
        /// The missing thing and the searched path.
        message: String,
    },
}

impl Status {
    /// Reports whether pods can be attached.
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Ready { .. })
    }
}

/// Caches the last status for a while, with the time when the network last was ready.
#[derive(Debug, Default)]
pub(crate) struct StatusMemory {
    last: Option<(Instant, u64, Status)>,
    last_ready: Option<(Instant, u64)>,
}

/// Lifetime of a cached status: STATUS starts programs, and the kubelet asks every few seconds.
const READY_SERVES: Duration = Duration::from_secs(30);
const NOT_READY_SERVES: Duration = Duration::from_secs(3);

impl StatusMemory {
    /// Returns the last status, if it is fresh and of this configuration.
    pub(crate) fn recall(&self, now: Instant, generation: u64) -> Option<Status> {
        let (at, about, status) = self.last.as_ref()?;
        let plain = matches!(status, Status::Ready { warnings } if warnings.is_empty());
        let serves = if plain {
            READY_SERVES
        } else {
            NOT_READY_SERVES
        };
        (*about == generation && now.duration_since(*at) < serves).then(|| status.clone())
    }

    /// Drops the cached status, because it belongs to another configuration.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Stores a new status, and returns the one to report. Within `grace` after the network was ready with the same
    /// configuration, a failure becomes a warning.
    pub(crate) fn note(
        &mut self,
        now: Instant,
        generation: u64,
        status: Status,
        grace: Duration,
    ) -> Status {
        if status.is_ready() {
            self.last_ready = Some((now, generation));
        }
        let reported = self.within_grace(now, generation, status, grace);
        self.last = Some((now, generation, reported.clone()));
        reported
    }

    /// Returns the status to report without storing it.
    pub(crate) fn within_grace(
        &self,
        now: Instant,
        generation: u64,
        status: Status,
        grace: Duration,
    ) -> Status {
        match (status, self.last_ready) {
            (Status::NotReady { reason, message }, Some((at, about)))
                if about == generation && now.duration_since(at) < grace =>
            {
                Status::Ready {
                    warnings: vec![format!("{reason}: {message}")],
                }
            }
            (status, _) => status,
        }
    }
}

/// The last failure to attach a pod, until an attachment succeeds.
#[derive(Debug, Default)]
pub(crate) struct RecentFailure(Option<(Instant, String)>);

/// Duration for which a failure is reported if it does not occur again.
const RECENT: Duration = Duration::from_mins(10);

impl RecentFailure {
    pub(crate) fn note(&mut self, now: Instant, failure: Option<String>) {
        self.0 = failure.map(|failure| (now, failure));
    }

    pub(crate) fn warning(&self, now: Instant) -> Option<String> {
        let (at, failure) = self.0.as_ref()?;
        (now.duration_since(*at) < RECENT)
            .then(|| format!("the last pod could not be attached: {failure}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_failure_is_told_for_a_while_or_until_a_success() {
        let mut recent = RecentFailure::default();
        let start = Instant::now();
        recent.note(start, Some("no address".to_owned()));
        let warning = recent.warning(start + Duration::from_mins(9)).unwrap();
        assert!(warning.contains("no address"), "{warning}");
        assert_eq!(recent.warning(start + Duration::from_mins(11)), None);
        recent.note(start, None);
        assert_eq!(recent.warning(start), None);
    }

    #[test]
    fn a_passing_failure_is_only_a_warning_within_the_grace_period() {
        let mut memory = StatusMemory::default();
        let start = Instant::now();
        let grace = Duration::from_secs(10);
        let ready = || Status::Ready {
            warnings: Vec::new(),
        };
        let broken = || Status::NotReady {
            reason: "Broken",
            message: "m".into(),
        };
        let after = |seconds| start + Duration::from_secs(seconds);

        assert!(
            !memory.note(start, 1, broken(), grace).is_ready(),
            "never was ready"
        );
        assert!(memory.note(after(1), 1, ready(), grace).is_ready());
        assert!(memory.note(after(5), 1, broken(), grace).is_ready());
        assert!(
            !memory.note(after(6), 2, broken(), grace).is_ready(),
            "another configuration"
        );
        assert!(
            !memory.note(after(12), 1, broken(), grace).is_ready(),
            "grace is over"
        );

        memory.note(after(13), 1, ready(), grace);
        assert!(memory.recall(after(20), 1).is_some());
        assert!(memory.recall(after(20), 2).is_none());
        assert!(memory.recall(after(60), 1).is_none());
    }
}
