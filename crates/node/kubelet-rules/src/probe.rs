//! Turns the results of a container's checks into probe verdicts.

use std::time::Duration;

use crate::Timestamp;
use crate::actions::ProbeResult;
use crate::pod::{Probe, RestartPolicy};

/// The kind of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeKind {
    /// Checks whether the container still works.
    Liveness,
    /// Checks whether the container is ready for traffic.
    Readiness,
    /// Checks whether the container has started.
    Startup,
}

impl ProbeKind {
    /// Returns the result before the first verdict.
    pub fn initial(self) -> ProbeResult {
        match self {
            Self::Liveness => ProbeResult::Success,
            Self::Readiness => ProbeResult::Failure,
            Self::Startup => ProbeResult::Unknown,
        }
    }
}

/// A probe of one container, across its instances.
///
/// ```text
///            new id            verdict: liveness failed,
///  waiting ─────────► probing ─── startup either way ───► on hold ──► new id: probing
/// ```
#[derive(Debug, Clone)]
pub struct ProbeWorker {
    kind: ProbeKind,
    probe: Probe,
    container_id: Option<String>,
    on_hold: bool,
    last: Option<ProbeResult>,
    run: u32,
}

/// The state of the container when a check is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The id of the newest instance, if there is one.
    pub container_id: Option<String>,
    /// When it started, if it is running.
    pub running_since: Option<Timestamp>,
    /// Whether it has ended.
    pub terminated: bool,
    /// Whether its startup probe has succeeded (or it has none).
    pub started: bool,
    /// Whether the pod has ended.
    pub pod_finished: bool,
    /// Whether the pod is being deleted.
    pub pod_deleted: bool,
    /// The pod's restart policy.
    pub restart_policy: RestartPolicy,
}

/// What to do when a check is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Run the check and report it with [`ProbeWorker::record`].
    Check,
    /// Do nothing this time.
    Wait,
    /// End the probe.
    Stop,
}

impl ProbeWorker {
    /// Creates a probe whose container does not exist yet.
    pub fn new(kind: ProbeKind, probe: Probe) -> Self {
        Self {
            kind,
            probe,
            container_id: None,
            on_hold: false,
            last: None,
            run: 0,
        }
    }

    /// Decides what to do when a check is due; also returns a result to publish for the current
    /// container.
    pub fn due(&mut self, seen: &Seen, now: Timestamp) -> (Due, Option<ProbeResult>) {
        if seen.pod_finished {
            return (Due::Stop, None);
        }
        let Some(id) = &seen.container_id else {
            return (Due::Wait, None);
        };
        let mut publish = None;
        if self.container_id.as_ref() != Some(id) {
            self.container_id = Some(id.clone());
            self.on_hold = false;
            self.last = None;
            self.run = 0;
            publish = Some(self.kind.initial());
        }
        if self.on_hold {
            return (Due::Wait, publish);
        }
        let Some(since) = seen.running_since else {
            let gone = seen.terminated && seen.restart_policy == RestartPolicy::Never;
            let due = if gone { Due::Stop } else { Due::Wait };
            return (due, Some(ProbeResult::Failure));
        };
        if seen.pod_deleted && self.kind != ProbeKind::Readiness {
            // A terminating pod must not be killed for a failed probe.
            return (Due::Stop, Some(ProbeResult::Success));
        }
        let delay = Duration::from_secs(u64::from(self.probe.initial_delay_seconds));
        let in_charge = seen.started != (self.kind == ProbeKind::Startup);
        if now.since(since) < delay || !in_charge {
            return (Due::Wait, publish);
        }
        (Due::Check, publish)
    }

    /// Records a check; returns the verdict to publish once enough consecutive results agree. A
    /// check that could not run is not recorded.
    pub fn record(&mut self, result: ProbeResult) -> Option<ProbeResult> {
        if self.last == Some(result) {
            self.run = self.run.saturating_add(1);
        } else {
            self.last = Some(result);
            self.run = 1;
        }
        let needed = match result {
            ProbeResult::Success => self.probe.success_threshold,
            ProbeResult::Failure => self.probe.failure_threshold,
            ProbeResult::Unknown => return None,
        };
        if self.run < needed {
            return None;
        }
        let final_word = match self.kind {
            ProbeKind::Liveness => result == ProbeResult::Failure,
            ProbeKind::Startup => true,
            ProbeKind::Readiness => false,
        };
        if final_word {
            self.on_hold = true;
            self.run = 0;
        }
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ProbeResult::{Failure, Success};

    fn seen(id: &str) -> Seen {
        Seen {
            container_id: Some(id.to_owned()),
            running_since: Some(Timestamp::from_secs(0)),
            terminated: false,
            started: true,
            pod_finished: false,
            pod_deleted: false,
            restart_policy: RestartPolicy::Always,
        }
    }

    const NOW: Timestamp = Timestamp(100_000_000_000);

    #[test]
    fn enough_in_a_row_make_a_verdict() {
        let probe = Probe {
            success_threshold: 2,
            failure_threshold: 3,
            ..Probe::default()
        };
        let mut worker = ProbeWorker::new(ProbeKind::Readiness, probe);
        for (i, (result, verdict)) in [
            (Success, None),
            (Success, Some(Success)),
            (Failure, None),
            (Failure, None),
            (Success, None),
            (Failure, None),
            (Failure, None),
            (Failure, Some(Failure)),
            (Failure, Some(Failure)),
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!(worker.record(result), verdict, "check {i}");
        }
    }

    #[test]
    fn final_words_hold_until_another_instance_comes() {
        for (kind, result, holds) in [
            (ProbeKind::Liveness, Failure, true),
            (ProbeKind::Liveness, Success, false),
            (ProbeKind::Startup, Failure, true),
            (ProbeKind::Startup, Success, true),
            (ProbeKind::Readiness, Failure, false),
        ] {
            let probe = Probe {
                failure_threshold: 1,
                ..Probe::default()
            };
            let mut worker = ProbeWorker::new(kind, probe);
            let state = Seen {
                started: kind != ProbeKind::Startup,
                ..seen("a")
            };
            assert_eq!(worker.due(&state, NOW), (Due::Check, Some(kind.initial())));
            assert_eq!(worker.record(result), Some(result));
            let expected = if holds { Due::Wait } else { Due::Check };
            assert_eq!(
                worker.due(&state, NOW),
                (expected, None),
                "{kind:?} {result:?}"
            );
            let next = Seen {
                container_id: Some("b".to_owned()),
                ..state
            };
            assert_eq!(worker.due(&next, NOW), (Due::Check, Some(kind.initial())));
        }
    }

    #[test]
    fn when_a_check_is_made() {
        let delayed = Probe {
            initial_delay_seconds: 101,
            ..Probe::default()
        };
        let base = seen("a");
        let ended = |restart_policy| Seen {
            running_since: None,
            terminated: true,
            restart_policy,
            ..seen("a")
        };
        let deleted = Seen {
            pod_deleted: true,
            ..seen("a")
        };
        let not_started = Seen {
            started: false,
            ..seen("a")
        };
        let finished = Seen {
            pod_finished: true,
            ..seen("a")
        };
        let nothing = Seen {
            container_id: None,
            ..seen("a")
        };
        use ProbeKind::{Liveness, Readiness, Startup};
        for (what, kind, probe, state, due, publish) in [
            (
                "as usual",
                Liveness,
                Probe::default(),
                base.clone(),
                Due::Check,
                Some(Success),
            ),
            (
                "pod finished",
                Liveness,
                Probe::default(),
                finished,
                Due::Stop,
                None,
            ),
            (
                "no container",
                Readiness,
                Probe::default(),
                nothing,
                Due::Wait,
                None,
            ),
            (
                "too early",
                Readiness,
                delayed,
                base.clone(),
                Due::Wait,
                Some(Failure),
            ),
            (
                "comes back",
                Readiness,
                Probe::default(),
                ended(RestartPolicy::Always),
                Due::Wait,
                Some(Failure),
            ),
            (
                "is gone",
                Readiness,
                Probe::default(),
                ended(RestartPolicy::Never),
                Due::Stop,
                Some(Failure),
            ),
            (
                "leaving",
                Liveness,
                Probe::default(),
                deleted.clone(),
                Due::Stop,
                Some(Success),
            ),
            (
                "leaving, readiness",
                Readiness,
                Probe::default(),
                deleted,
                Due::Check,
                Some(Failure),
            ),
            (
                "coming up",
                Liveness,
                Probe::default(),
                not_started.clone(),
                Due::Wait,
                Some(Success),
            ),
            (
                "coming up, startup",
                Startup,
                Probe::default(),
                not_started,
                Due::Check,
                Some(ProbeResult::Unknown),
            ),
            (
                "is up, startup",
                Startup,
                Probe::default(),
                base,
                Due::Wait,
                Some(ProbeResult::Unknown),
            ),
        ] {
            let mut worker = ProbeWorker::new(kind, probe);
            assert_eq!(worker.due(&state, NOW), (due, publish), "{what}");
        }
    }
}
