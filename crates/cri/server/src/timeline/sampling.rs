//! Sampling of traces for listeners.

use std::sync::atomic::{AtomicU32, Ordering};

/// The rate of all traces, in traces per million.
const MILLION: u32 = 1_000_000;

/// The value that turns all traces off, including those that a client samples.
const OFF: u32 = u32::MAX;

/// The sampling rate. A trace of a client follows the client's decision. For others the trace id decides, so that a
/// pod's calls are sampled together.
#[derive(Debug)]
pub struct Sampling(AtomicU32);

/// The facts that decide whether a call is sampled.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) trace: [u8; 16],
    /// The client's sampling decision, if it sent one.
    pub(super) by_client: Option<bool>,
}

impl Sampling {
    /// Creates a sampling of no traces.
    pub fn off() -> Self {
        Self(AtomicU32::new(OFF))
    }

    /// Sets the rate in traces per million; `None` turns all traces off.
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
            // The same decision as OpenTelemetry's TraceIdRatioBased.
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
