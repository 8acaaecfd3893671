//! Garbage collection of sandboxes.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::PodFate;
use crate::Timestamp;

/// A sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    /// The runtime's id.
    pub id: String,
    /// The pod it belongs to.
    pub pod_uid: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// Whether it is ready, or has containers.
    pub in_use: bool,
    /// Whether its pod is still wanted.
    pub fate: PodFate,
}

/// Chooses the sandboxes to stop and remove, the oldest of each pod first. It keeps sandboxes in
/// use, and the newest one of a wanted pod, which determines the next attempt number.
pub fn sandboxes_to_remove(sandboxes: &[Sandbox]) -> Vec<Sandbox> {
    let mut pods: BTreeMap<&str, Vec<&Sandbox>> = BTreeMap::new();
    for sandbox in sandboxes {
        pods.entry(&sandbox.pod_uid).or_default().push(sandbox);
    }
    let mut remove = Vec::new();
    for mut of_pod in pods.into_values() {
        of_pod.sort_by_key(|s| (Reverse(s.created_at), s.id.as_str()));
        let wanted = of_pod.iter().any(|s| s.fate == PodFate::Wanted);
        let dead = of_pod
            .iter()
            .skip(usize::from(wanted))
            .rev()
            .filter(|s| !s.in_use);
        remove.extend(dead.map(|s| (*s).clone()));
    }
    remove
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule() {
        use PodFate::{Gone, Wanted};
        for (what, rows, expected) in [
            ("newest of a wanted pod", vec![(false, Wanted)], vec![]),
            (
                "older one",
                vec![(false, Wanted), (true, Wanted)],
                vec!["0"],
            ),
            (
                "older one in use",
                vec![(true, Wanted), (false, Wanted)],
                vec![],
            ),
            (
                "pod gone",
                vec![(false, Gone), (false, Gone)],
                vec!["0", "1"],
            ),
            (
                "pod gone, in use",
                vec![(false, Gone), (true, Gone)],
                vec!["0"],
            ),
        ] {
            let sandboxes: Vec<_> = rows
                .into_iter()
                .enumerate()
                .map(|(i, (in_use, fate))| Sandbox {
                    id: i.to_string(),
                    pod_uid: "p".to_owned(),
                    created_at: Timestamp(i64::try_from(i).unwrap()),
                    in_use,
                    fate,
                })
                .collect();
            let removed = sandboxes_to_remove(&sandboxes);
            let ids: Vec<_> = removed.iter().map(|s| s.id.as_str()).collect();
            assert_eq!(ids, expected, "{what}");
        }
    }
}
