//! The order in which pods stop when the node shuts down.

use std::time::Duration;

use super::KubeletConfiguration;

/// The lowest priority of critical pods (`system-cluster-critical`).
const CRITICAL: i32 = 2_000_000_000;

/// Pods that stop at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Group {
    least: i32,
    below: Option<i32>,
    /// The grace period of the group.
    pub(super) grace: Duration,
}

impl Group {
    /// Whether pods of this priority belong to the group.
    pub(super) fn holds(&self, priority: i32) -> bool {
        priority >= self.least && self.below.is_none_or(|below| priority < below)
    }
}

/// Returns the groups in the order in which they stop; settings by priority override the others.
pub(super) fn groups(configuration: &KubeletConfiguration, longest: Duration) -> Vec<Group> {
    let by_priority = &configuration.shutdown_grace_period_by_pod_priority;
    let mut steps: Vec<(i32, Duration)> = by_priority
        .iter()
        .map(|step| {
            let grace = Duration::from_secs(step.shutdown_grace_period_seconds);
            (step.priority, grace)
        })
        .collect();
    if steps.is_empty() {
        let whole = configuration.shutdown_grace_period;
        let critical = configuration.shutdown_grace_period_critical_pods.min(whole);
        steps = if whole.is_zero() {
            vec![(i32::MIN, longest)]
        } else if critical.is_zero() {
            vec![(i32::MIN, whole)]
        } else {
            vec![
                (i32::MIN, whole.saturating_sub(critical)),
                (CRITICAL, critical),
            ]
        };
    }
    steps.sort_unstable();
    let bounds: Vec<Option<i32>> = steps
        .iter()
        .skip(1)
        .map(|(priority, _)| Some(*priority))
        .chain([None])
        .collect();
    let mut groups: Vec<Group> = steps
        .into_iter()
        .zip(bounds)
        .map(|((least, grace), below)| Group {
            least,
            below,
            grace,
        })
        .collect();
    // Pods below the lowest priority belong to the first group.
    if let Some(first) = groups.first_mut() {
        first.least = i32::MIN;
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::super::PriorityGrace;
    use super::*;

    #[test]
    fn the_important_end_last() {
        let secs = Duration::from_secs;
        let of = |configuration: &KubeletConfiguration| -> Vec<(i32, Option<i32>, Duration)> {
            let groups = groups(configuration, secs(100)).into_iter();
            groups.map(|it| (it.least, it.below, it.grace)).collect()
        };
        let mut written = KubeletConfiguration::default();
        assert_eq!(of(&written), [(i32::MIN, None, secs(100))]);
        written.shutdown_grace_period = secs(30);
        assert_eq!(of(&written), [(i32::MIN, None, secs(30))]);
        written.shutdown_grace_period_critical_pods = secs(10);
        assert_eq!(
            of(&written),
            [
                (i32::MIN, Some(CRITICAL), secs(20)),
                (CRITICAL, None, secs(10))
            ]
        );
        written.shutdown_grace_period_by_pod_priority = [(100, 7), (0, 5)]
            .map(|(priority, shutdown_grace_period_seconds)| PriorityGrace {
                priority,
                shutdown_grace_period_seconds,
            })
            .into();
        let groups = groups(&written, secs(100));
        assert!(groups[0].holds(-5) && groups[0].holds(99) && !groups[0].holds(100));
        assert!(groups[1].holds(100) && groups[1].holds(i32::MAX));
        assert_eq!((groups[0].grace, groups[1].grace), (secs(5), secs(7)));
    }
}
