//! The feature gates that have an effect here.

use std::collections::BTreeMap;

/// Container restart back-off from one second to one minute.
pub(crate) const REDUCED_BACK_OFF: &str = "ReduceDefaultCrashLoopBackOffDecay";
/// Sets `memory.high`, `memory.min` and `memory.low` from the containers' requests and limits.
pub(crate) const MEMORY_QOS: &str = "MemoryQoS";
/// An image pulled with a secret stays available to its pods; others must prove their credentials.
pub(crate) const PULLED_WITH_SECRETS: &str = "KubeletEnsureSecretPulledImages";
/// Uses the runtime's events instead of listing all pods each second.
pub(crate) const EVENTED_PLEG: &str = "EventedPLEG";

/// The gates and their defaults.
const GATES: [(&str, bool); 4] = [
    (REDUCED_BACK_OFF, false),
    (MEMORY_QOS, false),
    (PULLED_WITH_SECRETS, true),
    // The kubelet's default is off.
    (EVENTED_PLEG, true),
];

/// Whether a gate has an effect here.
pub(super) fn has_effect(gate: &str) -> bool {
    GATES.iter().any(|(name, _)| *name == gate)
}

/// Whether a gate is enabled.
pub(crate) fn is_open(set: &BTreeMap<String, bool>, gate: &str) -> bool {
    let default = GATES.iter().any(|(name, on)| *name == gate && *on);
    set.get(gate).copied().unwrap_or(default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_beats_what_is_usual() {
        let set = BTreeMap::from([
            (MEMORY_QOS.to_owned(), true),
            (EVENTED_PLEG.to_owned(), false),
        ]);
        assert!(is_open(&set, MEMORY_QOS) && !is_open(&set, EVENTED_PLEG));
        assert!(is_open(&set, PULLED_WITH_SECRETS) && !is_open(&set, REDUCED_BACK_OFF));
        assert!(!is_open(&set, "Other") && !has_effect("Other"));
    }
}
