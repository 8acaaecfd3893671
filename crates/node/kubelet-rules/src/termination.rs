//! The stop order of a pod's containers, and their grace periods.

use std::time::Duration;

use crate::actions::KillReason;
use crate::pod::{Container, Pod};

/// The shortest grace period, even if hooks have used up the time.
pub const MINIMUM_GRACE: Duration = Duration::from_secs(2);

/// A container to stop, and those it waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// The container's name.
    pub name: String,
    /// The containers that it waits for, until they have ended or its grace period expires.
    pub waits_for: Vec<String>,
}

/// Returns the stop order. All containers stop at once, except sidecars: each waits for the regular
/// containers and the next sidecar. Sidecars therefore stop in reverse start order.
pub fn termination_order<'a>(pod: &Pod, running: impl IntoIterator<Item = &'a str>) -> Vec<Turn> {
    let running: Vec<&str> = running.into_iter().collect();
    let regular: Vec<&str> = pod
        .spec
        .containers
        .iter()
        .map(|c| c.name.as_str())
        .filter(|name| running.contains(name))
        .collect();
    let sidecars: Vec<&str> = pod
        .spec
        .init_containers
        .iter()
        .filter(|c| c.is_sidecar())
        .map(|c| c.name.as_str())
        .filter(|name| running.contains(name))
        .collect();
    running
        .iter()
        .map(|name| {
            let waits_for = match sidecars.iter().position(|s| s == name) {
                None => Vec::new(),
                Some(i) => regular
                    .iter()
                    .chain(sidecars.get(i + 1))
                    .map(|other| (*other).to_owned())
                    .collect(),
            };
            Turn {
                name: (*name).to_owned(),
                waits_for,
            }
        })
        .collect()
}

/// Returns the grace period of a container, including its hook. `forced` overrides it, for example
/// in a hard eviction.
pub fn grace_period(
    pod: &Pod,
    container: Option<&Container>,
    reason: Option<KillReason>,
    forced: Option<Duration>,
) -> Duration {
    if let Some(forced) = forced {
        return forced;
    }
    let seconds = |s: i64| Duration::from_secs(u64::try_from(s).unwrap_or(0));
    if let Some(given) = pod.metadata.deletion_grace_period_seconds {
        return seconds(given);
    }
    let Some(of_pod) = pod.spec.termination_grace_period_seconds else {
        return MINIMUM_GRACE;
    };
    let probe = container.and_then(|c| match reason {
        Some(KillReason::StartupProbe) => c.startup_probe.as_ref(),
        Some(KillReason::LivenessProbe) => c.liveness_probe.as_ref(),
        _ => None,
    });
    seconds(
        probe
            .and_then(|p| p.termination_grace_period_seconds)
            .unwrap_or(of_pod),
    )
}

/// Returns the rest of the grace period for StopContainer, after the preStop hook and the wait for
/// other containers, in whole seconds.
pub fn remaining_grace(grace: Duration, hook: Duration, wait: Duration) -> Duration {
    let used = Duration::from_secs(hook.as_secs().saturating_add(wait.as_secs()));
    grace.saturating_sub(used).max(MINIMUM_GRACE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::{ContainerRestartPolicy, Probe};
    use crate::table::container;

    #[test]
    fn sidecars_wait_for_their_turn() {
        let mut pod = Pod::default();
        pod.spec.containers = vec![container("a"), container("b")];
        pod.spec.init_containers = ["i", "s1", "s2", "s3"].map(container).to_vec();
        for c in &mut pod.spec.init_containers[1..] {
            c.restart_policy = Some(ContainerRestartPolicy::Always);
        }
        for (running, expected) in [
            (
                vec!["a", "b", "s1", "s2", "s3"],
                vec![
                    vec![],
                    vec![],
                    vec!["a", "b", "s2"],
                    vec!["a", "b", "s3"],
                    vec!["a", "b"],
                ],
            ),
            // No container waits for one that is not running.
            (
                vec!["b", "s1", "s3"],
                vec![vec![], vec!["b", "s3"], vec!["b"]],
            ),
            (vec!["i", "s1"], vec![vec![], vec![]]),
        ] {
            let turns: Vec<_> = termination_order(&pod, running.iter().copied())
                .into_iter()
                .map(|turn| turn.waits_for)
                .collect();
            assert_eq!(turns, expected, "{running:?}");
        }
    }

    #[test]
    fn whose_grace_counts() {
        let mut c = container("c");
        c.liveness_probe = Some(Probe {
            termination_grace_period_seconds: Some(7),
            ..Probe::default()
        });
        let liveness = Some(KillReason::LivenessProbe);
        let startup = Some(KillReason::StartupProbe);
        for (deletion, of_pod, reason, forced, expected) in [
            (None, None, None, None, 2),
            (None, Some(30), None, None, 30),
            (None, Some(30), liveness, None, 7),
            (None, Some(30), startup, None, 30),
            (Some(5), Some(30), liveness, None, 5),
            (Some(0), Some(30), None, None, 0),
            (Some(5), Some(30), None, Some(1), 1),
        ] {
            let mut pod = Pod::default();
            pod.metadata.deletion_grace_period_seconds = deletion;
            pod.spec.termination_grace_period_seconds = of_pod;
            let forced = forced.map(Duration::from_secs);
            assert_eq!(
                grace_period(&pod, Some(&c), reason, forced),
                Duration::from_secs(expected),
                "{deletion:?} {of_pod:?} {reason:?} {forced:?}"
            );
        }
    }

    #[test]
    fn hooks_and_waits_are_paid_from_the_grace() {
        for (grace, hook, wait, expected) in [
            (30, 0, 0, 30),
            (30, 10, 5, 15),
            (30, 30, 0, 2),
            (30, 20, 20, 2),
            (0, 0, 0, 2),
        ] {
            let left = remaining_grace(
                Duration::from_secs(grace),
                Duration::from_secs(hook),
                Duration::from_secs(wait),
            );
            assert_eq!(left, Duration::from_secs(expected));
        }
    }
}
