//! The node's resource pressure and its duration.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use orlop_kubelet_rules::Timestamp;

use super::thresholds::{Crossed, Observation, Signal, Thresholds};

/// The node's resource pressure and its duration.
///
/// ```text
///   fine ── threshold crossed ──► under pressure ── back above it ──► recovering ──► fine
///                                       ▲                                │   transition period
///                                       └──────── crossed again ─────────┘
/// ```
#[derive(Debug)]
pub(crate) struct Pressure {
    thresholds: Thresholds,
    transition: Duration,
    since: BTreeMap<Signal, Timestamp>,
    conditions: BTreeMap<&'static str, Condition>,
    /// Directories of images and writable layers, once the runtime has reported them.
    pub(crate) images: Option<PathBuf>,
    pub(crate) containers: Option<PathBuf>,
}

/// A pressure condition of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Condition {
    /// When the condition began.
    pub(crate) since: Timestamp,
    /// When a threshold was last crossed.
    pub(crate) last_seen: Timestamp,
}

/// The decision to evict pods for a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) signal: Signal,
    /// Whether pods end within their grace period, or immediately.
    pub(crate) graceful: bool,
    pub(crate) threshold: u64,
    pub(crate) available: u64,
}

impl Pressure {
    pub(crate) fn new(thresholds: Thresholds, transition: Duration) -> Self {
        Self {
            thresholds,
            transition,
            since: BTreeMap::new(),
            conditions: BTreeMap::new(),
            images: None,
            containers: None,
        }
    }

    /// Whether no thresholds are set.
    pub(crate) fn is_idle(&self) -> bool {
        self.thresholds.is_empty()
    }

    /// Updates the pressure from observations; returns the most urgent signal for which pods must
    /// be evicted.
    pub(crate) fn update(
        &mut self,
        observations: &BTreeMap<Signal, Observation>,
        now: Timestamp,
    ) -> Option<Verdict> {
        let before: Vec<Signal> = self.since.keys().copied().collect();
        let crossed = self.thresholds.crossed(observations, &before);
        self.since
            .retain(|signal, _| crossed.iter().any(|it| it.signal == *signal));
        let mut due: Vec<Crossed> = Vec::new();
        for it in crossed {
            let since = *self.since.entry(it.signal).or_insert(now);
            let condition = self
                .conditions
                .entry(it.signal.condition())
                .or_insert(Condition {
                    since: now,
                    last_seen: now,
                });
            condition.last_seen = now;
            if it.after.is_none_or(|grace| now.since(since) >= grace) {
                due.push(it);
            }
        }
        let transition = self.transition;
        self.conditions.retain(|_, condition| {
            now.since(condition.last_seen) < transition || condition.last_seen == now
        });
        // Memory first, because it is exhausted fastest; hard thresholds before soft ones.
        due.sort_by_key(|it| (it.signal, it.after.is_some()));
        due.first().map(|it| Verdict {
            signal: it.signal,
            graceful: it.after.is_some(),
            threshold: it.threshold,
            available: it.available,
        })
    }

    /// Returns the node's current conditions, such as `MemoryPressure`.
    pub(crate) fn conditions(&self) -> &BTreeMap<&'static str, Condition> {
        &self.conditions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KubeletConfiguration;

    fn pressure() -> Pressure {
        let map = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect::<BTreeMap<_, _>>()
        };
        let configuration = KubeletConfiguration {
            eviction_hard: Some(map(&[
                ("memory.available", "100"),
                ("nodefs.available", "10%"),
            ])),
            eviction_soft: map(&[("memory.available", "200")]),
            eviction_soft_grace_period: map(&[("memory.available", "30s")]),
            eviction_minimum_reclaim: map(&[("nodefs.available", "50")]),
            ..KubeletConfiguration::default()
        };
        Pressure::new(
            Thresholds::read(&configuration).unwrap(),
            Duration::from_mins(1),
        )
    }

    fn seen(memory: u64, disk: u64) -> BTreeMap<Signal, Observation> {
        let of = |available| Observation {
            available,
            capacity: 1000,
        };
        [(Signal::Memory, of(memory)), (Signal::NodeFs, of(disk))].into()
    }

    #[test]
    fn a_node_comes_under_pressure_and_recovers() {
        let mut pressure = pressure();
        // Time, available amounts, signal acted on, and conditions afterwards.
        for (at, memory, disk, acted, conditions) in [
            (0, 500, 500, None, vec![]),
            (
                10,
                99,
                500,
                Some((Signal::Memory, false)),
                vec!["MemoryPressure"],
            ),
            (20, 150, 500, None, vec!["MemoryPressure"]),
            (30, 150, 500, None, vec!["MemoryPressure"]),
            (
                45,
                150,
                500,
                Some((Signal::Memory, true)),
                vec!["MemoryPressure"],
            ),
            (50, 500, 500, None, vec!["MemoryPressure"]),
            (104, 500, 500, None, vec!["MemoryPressure"]),
            (105, 500, 500, None, vec![]),
            (
                200,
                500,
                99,
                Some((Signal::NodeFs, false)),
                vec!["DiskPressure"],
            ),
            (
                210,
                500,
                149,
                Some((Signal::NodeFs, false)),
                vec!["DiskPressure"],
            ),
            (220, 500, 150, None, vec!["DiskPressure"]),
            (230, 500, 149, None, vec!["DiskPressure"]),
            (
                240,
                10,
                10,
                Some((Signal::Memory, false)),
                vec!["DiskPressure", "MemoryPressure"],
            ),
        ] {
            let verdict = pressure.update(&seen(memory, disk), Timestamp::from_secs(at));
            assert_eq!(verdict.map(|it| (it.signal, it.graceful)), acted, "at {at}");
            let found: Vec<_> = pressure.conditions().keys().copied().collect();
            assert_eq!(found, conditions, "at {at}");
        }
    }

    #[test]
    fn thresholds_that_make_no_sense_are_refused() {
        for (hard, soft, word) in [
            (("memory.free", "1"), None, "unknown signal"),
            (("memory.available", "110%"), None, "percentage"),
            (("memory.available", "x"), None, "quantity"),
            (
                ("memory.available", "1"),
                Some(("memory.available", "2")),
                "GracePeriod",
            ),
        ] {
            let pair =
                |(key, value): (&str, &str)| BTreeMap::from([(key.to_owned(), value.to_owned())]);
            let configuration = KubeletConfiguration {
                eviction_hard: Some(pair(hard)),
                eviction_soft: soft.map(pair).unwrap_or_default(),
                ..KubeletConfiguration::default()
            };
            let error = Thresholds::read(&configuration).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
        let none = KubeletConfiguration {
            eviction_hard: Some(BTreeMap::new()),
            ..KubeletConfiguration::default()
        };
        assert!(Thresholds::read(&none).unwrap().is_empty());
    }
}
