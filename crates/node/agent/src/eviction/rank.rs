//! Which pod goes first.

use std::cmp::Reverse;

/// A pod that might have to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) uid: String,
    /// The pod's priority.
    pub(crate) priority: i32,
    /// What it uses of what is low.
    pub(crate) usage: u64,
    /// What it was promised of it.
    pub(crate) request: u64,
}

/// The least priority of pods that the node cannot do without (`system-cluster-critical`).
const CRITICAL: i32 = 2_000_000_000;

/// Puts those who are to go first to the front: who uses more than was promised, before who does
/// not; then the less important; then who uses most beyond the promise. Critical pods never go.
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
