//! Which traces are told to whoever listens.

use std::sync::atomic::{AtomicU32, Ordering};

/// All of a million.
const MILLION: u32 = 1_000_000;

/// What stands for no trace at all, whatever its client says.
const OFF: u32 = u32::MAX;

/// The part of traces that is told. A trace that a client began is told where the client keeps it; of others
/// their id decides, so that a pod's calls are told all or none.
#[derive(Debug)]
pub struct Sampling(AtomicU32);

/// What decides of a call whether it is told.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) trace: [u8; 16],
    /// Whether the client keeps its trace, where it has one.
    pub(super) by_client: Option<bool>,
}

impl Sampling {
    /// Of nothing.
    pub fn off() -> Self {
        Self(AtomicU32::new(OFF))
    }

    /// Of so many traces in a million from now on; none of no trace at all.
    pub fn set(&self, per_million: Option<u32>) {
        let value = per_million.map_or(OFF, |rate| rate.min(MILLION));
        self.0.store(value, Ordering::Relaxed);
    }

    pub(super) fn is_off(&self) -> bool {
        self.0.load(Ordering::Relaxed) == OFF
    }

    pub(super) fn takes(&self, wanted: Wanted) -> bool {
        let rate = self.0.load(Ordering::Relaxed);
        if rate == OFF {
            return false;
        }
        wanted.by_client.unwrap_or_else(|| {
            // As OpenTelemetry's TraceIdRatioBased has it, so that others decide alike.
            let number = u128::from_be_bytes(wanted.trace) as u64 >> 1;
            u128::from(number) * u128::from(MILLION) < u128::from(rate) << 63
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(per_million: Option<u32>, by_client: Option<bool>) -> usize {
        let sampling = Sampling::off();
        sampling.set(per_million);
        let traces = (0..10_000).map(|_| rand::random());
        let wanted = traces.map(|trace| Wanted { trace, by_client });
        wanted.filter(|wanted| sampling.takes(*wanted)).count()
    }

    #[test]
    fn a_part_is_taken_and_the_client_decides_of_its_own() {
        assert_eq!(taken(Some(MILLION), None), 10_000);
        assert_eq!(taken(Some(0), None), 0);
        let tenth = taken(Some(MILLION / 10), None);
        assert!((700..1300).contains(&tenth), "{tenth}");
        assert_eq!(taken(Some(0), Some(true)), 10_000);
        assert_eq!(taken(Some(MILLION), Some(false)), 0);
        assert_eq!(taken(None, Some(true)), 0);
    }
}
