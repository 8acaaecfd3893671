//! Eviction thresholds, as in the kubelet's configuration.

use std::collections::BTreeMap;
use std::time::Duration;

use orlop_kubelet_rules::pod::Quantity;

use crate::KubeletConfiguration;

/// An eviction signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Signal {
    /// `memory.available`
    Memory,
    /// `nodefs.available`
    NodeFs,
    /// `nodefs.inodesFree`
    NodeFsInodes,
    /// `imagefs.available`
    ImageFs,
    /// `imagefs.inodesFree`
    ImageFsInodes,
    /// `containerfs.available`, if it is a third file system.
    ContainerFs,
    /// `containerfs.inodesFree`, if it is a third file system.
    ContainerFsInodes,
    /// `pid.available`
    Pids,
}

impl Signal {
    pub(crate) const ALL: [Self; 8] = [
        Self::Memory,
        Self::NodeFs,
        Self::NodeFsInodes,
        Self::ImageFs,
        Self::ImageFsInodes,
        Self::ContainerFs,
        Self::ContainerFsInodes,
        Self::Pids,
    ];

    /// Returns the kubelet's name of the signal.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Memory => "memory.available",
            Self::NodeFs => "nodefs.available",
            Self::NodeFsInodes => "nodefs.inodesFree",
            Self::ImageFs => "imagefs.available",
            Self::ImageFsInodes => "imagefs.inodesFree",
            Self::ContainerFs => "containerfs.available",
            Self::ContainerFsInodes => "containerfs.inodesFree",
            Self::Pids => "pid.available",
        }
    }

    /// Returns the node condition that the signal causes.
    pub(crate) fn condition(self) -> &'static str {
        match self {
            Self::Memory => "MemoryPressure",
            Self::Pids => "PIDPressure",
            _ => "DiskPressure",
        }
    }

    /// Returns the resource that the eviction message names.
    pub(crate) fn resource(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::NodeFs | Self::ImageFs | Self::ContainerFs => "ephemeral-storage",
            Self::NodeFsInodes | Self::ImageFsInodes | Self::ContainerFsInodes => "inodes",
            Self::Pids => "pids",
        }
    }

    fn read(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|signal| signal.word() == word)
    }

    /// Returns the other signal that its threshold applies to: containers usually share the file
    /// system of images.
    fn stands_for(self) -> Option<Self> {
        let found = LIKE_IMAGES.iter().find(|(signal, _)| *signal == self);
        found.map(|(_, images)| *images)
    }
}

const LIKE_IMAGES: [(Signal, Signal); 2] = [
    (Signal::ContainerFs, Signal::ImageFs),
    (Signal::ContainerFsInodes, Signal::ImageFsInodes),
];

const LIKE_THE_NODE: [(Signal, Signal); 2] = [
    (Signal::ContainerFs, Signal::NodeFs),
    (Signal::ContainerFsInodes, Signal::NodeFsInodes),
];

/// The available amount and the capacity of a resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Observation {
    pub(crate) available: u64,
    pub(crate) capacity: u64,
}

/// An absolute amount, or a share of the capacity.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Amount {
    Units(u64),
    Share(f64),
}

impl Amount {
    fn read(field: &str, key: &str, text: &str) -> Result<Self, String> {
        if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent
                .parse()
                .ok()
                .filter(|it| (0.0..=100.0).contains(it))
                .ok_or_else(|| {
                    format!("{field}[{key}]: {text:?} is not a percentage between 0% and 100%")
                })?;
            return Ok(Self::Share(percent / 100.0));
        }
        let amount: Quantity = text
            .parse()
            .map_err(|error| format!("{field}[{key}]: {error}"))?;
        u64::try_from(amount.units())
            .map(Self::Units)
            .map_err(|_| format!("{field}[{key}]: must not be negative"))
    }

    fn of(self, capacity: u64) -> u64 {
        match self {
            Self::Units(units) => units,
            Self::Share(share) => (capacity as f64 * share) as u64,
        }
    }
}

/// The thresholds of all signals.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Thresholds {
    hard: BTreeMap<Signal, Amount>,
    soft: BTreeMap<Signal, (Amount, Duration)>,
    reclaim: BTreeMap<Signal, Amount>,
}

/// A threshold that was crossed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Crossed {
    pub(super) signal: Signal,
    /// How long it must stay crossed before pods are evicted; `None` for a hard threshold.
    pub(super) after: Option<Duration>,
    pub(super) threshold: u64,
    pub(super) available: u64,
}

impl Thresholds {
    /// Reads the thresholds from a configuration.
    pub(crate) fn read(configuration: &KubeletConfiguration) -> Result<Self, String> {
        let unknown = |field: &str, word: &str| {
            let words = Signal::ALL.map(Signal::word).join(", ");
            format!("{field}: unknown signal {word:?}; use one of {words}")
        };
        let amounts = |field: &str, written: &BTreeMap<String, String>| {
            let mut amounts = BTreeMap::new();
            for (word, text) in written {
                let signal = Signal::read(word).ok_or_else(|| unknown(field, word))?;
                let amount = Amount::read(field, word, text)?;
                amounts.insert(signal, amount);
                if let Some(other) = signal.stands_for()
                    && !written.contains_key(other.word())
                {
                    amounts.insert(other, amount);
                }
            }
            Ok::<_, String>(amounts)
        };
        let defaults = BTreeMap::from([
            (Signal::Memory, Amount::Units(100 << 20)),
            (Signal::NodeFs, Amount::Share(0.10)),
            (Signal::NodeFsInodes, Amount::Share(0.05)),
            (Signal::ImageFs, Amount::Share(0.15)),
            (Signal::ImageFsInodes, Amount::Share(0.05)),
        ]);
        let mut hard = match &configuration.eviction_hard {
            None => defaults,
            Some(written) => {
                let mut hard = if configuration.merge_default_eviction_settings {
                    defaults
                } else {
                    BTreeMap::new()
                };
                hard.extend(amounts("evictionHard", written)?);
                hard
            }
        };
        // A separate file system for containers gets the node's threshold, unless it has its own.
        for (of, like) in LIKE_THE_NODE {
            if let Some(amount) = hard.get(&like).copied() {
                hard.entry(of).or_insert(amount);
            }
        }
        // A zero threshold is never crossed.
        let hard = hard
            .into_iter()
            .filter(|(_, amount)| !matches!(amount, Amount::Units(0) | Amount::Share(0.0)))
            .collect();
        let mut soft = BTreeMap::new();
        for (signal, amount) in amounts("evictionSoft", &configuration.eviction_soft)? {
            let graces = &configuration.eviction_soft_grace_period;
            let of_container = LIKE_IMAGES.iter().find(|(_, images)| *images == signal);
            let grace = graces.get(signal.word());
            let grace = grace.or_else(|| graces.get(of_container?.0.word()));
            let grace = grace.and_then(|text| orlop_text::duration::parse(text).ok());
            let grace = grace.ok_or_else(|| {
                let word = signal.word();
                format!("evictionSoft[{word}] needs a duration in evictionSoftGracePeriod[{word}]")
            })?;
            soft.insert(signal, (amount, grace));
        }
        for (of, like) in LIKE_THE_NODE {
            if let Some(amount) = soft.get(&like).copied() {
                soft.entry(of).or_insert(amount);
            }
        }
        Ok(Self {
            hard,
            soft,
            reclaim: amounts(
                "evictionMinimumReclaim",
                &configuration.eviction_minimum_reclaim,
            )?,
        })
    }

    /// Returns the hard threshold of a signal in bytes; 0 if there is none.
    pub(crate) fn hard_bytes(&self, word: &str, capacity: u64) -> u64 {
        let threshold = Signal::read(word).and_then(|signal| self.hard.get(&signal));
        threshold.map_or(0, |amount| amount.of(capacity))
    }

    /// Whether there are no thresholds.
    pub(crate) fn is_empty(&self) -> bool {
        self.hard.is_empty() && self.soft.is_empty()
    }

    /// Returns the crossed thresholds, hard ones first. A signal that was crossed before counts
    /// until it is above its threshold by the minimum reclaim.
    pub(super) fn crossed(
        &self,
        observations: &BTreeMap<Signal, Observation>,
        before: &[Signal],
    ) -> Vec<Crossed> {
        let mut crossed = Vec::new();
        let hard = self
            .hard
            .iter()
            .map(|(signal, amount)| (*signal, *amount, None));
        let soft = self
            .soft
            .iter()
            .map(|(signal, (amount, grace))| (*signal, *amount, Some(*grace)));
        for (signal, amount, after) in hard.chain(soft) {
            let Some(observation) = observations.get(&signal) else {
                continue;
            };
            if observation.capacity == 0 {
                continue;
            }
            let threshold = amount.of(observation.capacity);
            let more = match self.reclaim.get(&signal) {
                Some(more) if before.contains(&signal) => more.of(observation.capacity),
                _ => 0,
            };
            if observation.available < threshold.saturating_add(more) {
                crossed.push(Crossed {
                    signal,
                    after,
                    threshold,
                    available: observation.available,
                });
            }
        }
        crossed
    }
}
