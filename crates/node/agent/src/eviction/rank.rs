//! The order in which pods are evicted.

use std::cmp::Reverse;

/// A pod that may be evicted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) uid: String,
    /// The pod's priority.
    pub(crate) priority: i32,
    /// Its usage of the scarce resource.
    pub(crate) usage: u64,
    /// Its request of the resource.
    pub(crate) request: u64,
}

/// The lowest priority of critical pods (`system-cluster-critical`).
const CRITICAL: i32 = 2_000_000_000;

/// Sorts pods by eviction order: first pods above their request, then lower priority, then the
/// largest usage above the request. Critical pods are never evicted.
pub(crate) fn rank(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    candidates.retain(|it| it.priority < CRITICAL);
    candidates.sort_by_key(|it| {
        let within = it.usage <= it.request;
        let beyond = i128::from(it.usage) - i128::from(it.request);
        (within, it.priority, Reverse(beyond), it.uid.clone())
    });
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greedy_and_unimportant_go_first() {
        let candidate = |uid: &str, priority, usage, request| Candidate {
            uid: uid.to_owned(),
            priority,
            usage,
            request,
        };
        let ranked = rank(vec![
            candidate("within", 0, 50, 100),
            candidate("little", 0, 110, 100),
            candidate("much", 0, 300, 100),
            candidate("important", 10, 900, 0),
            candidate("critical", 2_000_000_000, 900, 0),
            candidate("idle", -1, 0, 0),
        ]);
        let uids: Vec<_> = ranked.iter().map(|it| it.uid.as_str()).collect();
        assert_eq!(uids, ["much", "little", "important", "idle", "within"]);
    }
}
