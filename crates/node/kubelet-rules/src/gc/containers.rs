//! Garbage collection of dead containers.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::Timestamp;

/// How many dead containers are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContainerPolicy {
    /// Younger containers are not removed.
    pub min_age: Duration,
    /// Dead instances kept per container; `None` for all.
    pub max_per_container: Option<usize>,
    /// Dead instances kept on the node; `None` for all.
    pub max_total: Option<usize>,
}

impl Default for ContainerPolicy {
    fn default() -> Self {
        Self {
            min_age: Duration::ZERO,
            max_per_container: Some(1),
            max_total: None,
        }
    }
}

/// Whether a pod still exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodFate {
    /// The pod is still wanted.
    Wanted,
    /// The pod is gone.
    Gone,
}

/// A container that is not running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadContainer {
    /// The runtime's id.
    pub id: String,
    /// The pod it belonged to.
    pub pod_uid: String,
    /// Its name in the pod.
    pub name: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// Whether its pod is still wanted.
    pub fate: PodFate,
    /// Whether its state is unknown, so that it is killed before its removal.
    pub unknown: bool,
}

/// Chooses the containers to remove, in order. `sources_ready` means that all manifests have been
/// read: until then, a pod that seems gone may only be unread.
pub fn containers_to_remove(
    dead: &[DeadContainer],
    policy: &ContainerPolicy,
    sources_ready: bool,
    now: Timestamp,
) -> Vec<DeadContainer> {
    let mut remove = Vec::new();
    let mut units: BTreeMap<(&str, &str), Vec<&DeadContainer>> = BTreeMap::new();
    for container in dead {
        if container.created_at.after(policy.min_age) > now {
            continue;
        }
        if sources_ready && container.fate == PodFate::Gone {
            remove.push(container.clone());
        } else {
            let unit = (container.pod_uid.as_str(), container.name.as_str());
            units.entry(unit).or_default().push(container);
        }
    }
    for unit in units.values_mut() {
        unit.sort_by_key(|c| (Reverse(c.created_at), c.id.as_str()));
    }
    let cut = |units: &mut BTreeMap<_, Vec<&DeadContainer>>,
               keep: usize,
               remove: &mut Vec<DeadContainer>| {
        for unit in units.values_mut() {
            let from = keep.min(unit.len());
            remove.extend(unit.drain(from..).rev().cloned());
        }
    };
    if let Some(keep) = policy.max_per_container {
        cut(&mut units, keep, &mut remove);
    }
    let count = |units: &BTreeMap<_, Vec<&DeadContainer>>| units.values().map(Vec::len).sum();
    if let Some(max) = policy.max_total {
        let total: usize = count(&units);
        if total > max {
            // First an equal share for each container, at least one; then the oldest of all.
            units.retain(|_, unit| !unit.is_empty());
            let share = (max / units.len().max(1)).max(1);
            cut(&mut units, share, &mut remove);
            let mut left: Vec<_> = units.into_values().flatten().collect();
            left.sort_by_key(|c| (Reverse(c.created_at), c.id.as_str()));
            let from = max.min(left.len());
            remove.extend(left.drain(from..).rev().cloned());
        }
    }
    remove
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead(id: &str, created: i64) -> DeadContainer {
        // `pod/name/instance`
        let mut parts = id.split('/');
        let mut part = || parts.next().unwrap_or_default().to_owned();
        DeadContainer {
            pod_uid: part(),
            name: part(),
            id: id.to_owned(),
            created_at: Timestamp::from_secs(created),
            fate: PodFate::Wanted,
            unknown: false,
        }
    }

    #[test]
    fn each_rule() {
        let gone = |id, created| DeadContainer {
            fate: PodFate::Gone,
            ..dead(id, created)
        };
        let three = vec![dead("p/a/0", 0), dead("p/a/1", 1), dead("p/a/2", 2)];
        let two_units = vec![
            dead("p/a/0", 0),
            dead("p/a/1", 1),
            dead("p/a/2", 2),
            dead("q/b/0", 3),
        ];
        let policy = |min_age, per, total| ContainerPolicy {
            min_age: Duration::from_secs(min_age),
            max_per_container: per,
            max_total: total,
        };
        for (what, rows, policy, ready, expected) in [
            (
                "keep one",
                three.clone(),
                policy(0, Some(1), None),
                true,
                vec!["p/a/0", "p/a/1"],
            ),
            (
                "keep none",
                three.clone(),
                policy(0, Some(0), None),
                true,
                vec!["p/a/0", "p/a/1", "p/a/2"],
            ),
            (
                "keep all",
                three.clone(),
                policy(0, None, None),
                true,
                vec![],
            ),
            (
                "too young",
                three,
                policy(99, Some(0), None),
                true,
                vec!["p/a/0", "p/a/1"],
            ),
            (
                "pod gone",
                vec![gone("p/a/0", 0)],
                policy(0, Some(1), None),
                true,
                vec!["p/a/0"],
            ),
            (
                "perhaps gone",
                vec![gone("p/a/0", 0)],
                policy(0, Some(1), None),
                false,
                vec![],
            ),
            (
                "equal shares",
                two_units.clone(),
                policy(0, None, Some(2)),
                true,
                vec!["p/a/0", "p/a/1"],
            ),
            (
                "oldest of all",
                two_units,
                policy(0, None, Some(1)),
                true,
                vec!["p/a/0", "p/a/1", "p/a/2"],
            ),
        ] {
            let removed = containers_to_remove(&rows, &policy, ready, Timestamp::from_secs(100));
            let ids: Vec<_> = removed.iter().map(|c| c.id.as_str()).collect();
            assert_eq!(ids, expected, "{what}");
        }
    }
}
