//! Rates, computed from two samples.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;

/// Samples that are closer are too inaccurate.
const LEAST: i64 = 1_000_000_000;

/// CPU usage rates of pods, containers and the node between two samples.
#[derive(Debug, Default)]
pub(crate) struct Rates(Mutex<BTreeMap<String, Sample>>);

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: i64,
    total: u64,
    rate: u64,
}

impl Rates {
    /// Returns the CPU usage in nanocores since the last sample, or since `begin` if this is the
    /// first. `total` is the CPU time in nanoseconds until `at`.
    pub(super) fn of(&self, key: &str, begin: i64, at: i64, total: u64) -> Option<u64> {
        let mut samples = self.0.lock();
        let (since, before) = match samples.get(key) {
            // A smaller total belongs to a new container after a restart.
            Some(last) if last.total <= total => {
                if at - last.at < LEAST {
                    return Some(last.rate);
                }
                (last.at, last.total)
            }
            _ => (begin, 0),
        };
        let span = u64::try_from(at - since).ok().filter(|span| *span > 0)?;
        let rate = u128::from(total - before) * 1_000_000_000 / u128::from(span);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        samples.insert(key.to_owned(), Sample { at, total, rate });
        Some(rate)
    }

    /// Removes the samples of other keys.
    pub(super) fn keep(&self, keys: &BTreeSet<String>) {
        let mut samples = self.0.lock();
        samples.retain(|key, _| keys.contains(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_of_the_time_between_two_looks() {
        const SECOND: i64 = 1_000_000_000;
        let rates = Rates::default();
        for (at, total, expected, why) in [
            (
                10 * SECOND,
                5_000_000_000,
                Some(500_000_000),
                "since the beginning",
            ),
            (
                12 * SECOND,
                5_500_000_000,
                Some(250_000_000),
                "since the last look",
            ),
            (
                12 * SECOND + 1,
                5_500_000_001,
                Some(250_000_000),
                "too soon",
            ),
            (14 * SECOND, 5_500_000_000, Some(0), "idle since"),
            (20 * SECOND, 1_000_000_000, Some(50_000_000), "started anew"),
            (20 * SECOND, 500_000_000, Some(25_000_000), "and again"),
        ] {
            assert_eq!(rates.of("a", 0, at, total), expected, "{why}");
        }
        assert_eq!(rates.of("b", SECOND, SECOND, 7), None, "no time has passed");
        rates.keep(&BTreeSet::new());
        assert_eq!(rates.of("a", 0, SECOND, 1), Some(1));
    }
}
