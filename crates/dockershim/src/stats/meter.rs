//! The figures of one cgroup, and what the last reading said.

use orlop_cgroup::{Cgroup, Pressure, Stall, Stats, StatsReader};
use orlop_cri::v1::{CpuUsage, IoUsage, MemoryUsage, PsiData, PsiStats, SwapUsage, UInt64Value};

use super::layer::Layer;
use crate::clock;

/// Two readings closer together say nothing about speed.
const MIN_INTERVAL: i64 = 100_000_000;

/// Reads a cgroup again and again.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    reader: Option<StatsReader>,
    last: Option<(i64, u64)>,
    nano_cores: Option<u64>,
    pub(super) layer: Layer,
}

/// One reading.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) at: i64,
    pub(super) stats: Stats,
    nano_cores: Option<u64>,
}

impl Meter {
    /// Reads; nothing where the cgroup is gone, as it is after the last process.
    pub(super) fn read(&mut self, cgroup: &Cgroup) -> Option<Reading> {
        let mut reader = match self.reader.take() {
            Some(reader) => reader,
            None => StatsReader::open(cgroup).ok()?,
        };
        let stats = reader.read().ok()?;
        self.reader = Some(reader);
        let at = clock::now();
        if let Some(cpu) = &stats.cpu {
            self.note(at, cpu.usage_ns);
        }
        Some(Reading {
            at,
            stats,
            nano_cores: self.nano_cores,
        })
    }

    /// How many processes were killed for want of memory.
    pub(super) fn oom_kills(&mut self) -> u64 {
        let counts = self.reader.as_mut().and_then(|reader| reader.oom().ok());
        counts.flatten().map_or(0, |counts| counts.kills)
    }

    fn note(&mut self, at: i64, used: u64) {
        if let Some((before, used_before)) = self.last {
            let elapsed = at - before;
            if elapsed < MIN_INTERVAL {
                return;
            }
            let used = u128::from(used.saturating_sub(used_before));
            let speed = used * 1_000_000_000 / u128::from(elapsed.unsigned_abs());
            self.nano_cores = u64::try_from(speed).ok();
        }
        self.last = Some((at, used));
    }
}

impl Reading {
    pub(super) fn cpu(&self) -> Option<CpuUsage> {
        let cpu = self.stats.cpu.as_ref()?;
        Some(CpuUsage {
            timestamp: self.at,
            usage_core_nano_seconds: value(cpu.usage_ns),
            usage_nano_cores: self.nano_cores.and_then(value),
            psi: psi(self.stats.pressure.cpu.as_ref()),
        })
    }

    pub(super) fn memory(&self) -> Option<MemoryUsage> {
        let memory = self.stats.memory.as_ref()?;
        Some(MemoryUsage {
            timestamp: self.at,
            working_set_bytes: value(memory.working_set),
            available_bytes: memory.available().and_then(value),
            usage_bytes: value(memory.usage),
            rss_bytes: value(memory.rss),
            page_faults: value(memory.page_faults),
            major_page_faults: value(memory.major_page_faults),
            psi: psi(self.stats.pressure.memory.as_ref()),
        })
    }

    pub(super) fn swap(&self) -> Option<SwapUsage> {
        let memory = self.stats.memory.as_ref()?;
        let usage = memory.swap_usage?;
        let available = memory.swap_limit.map(|limit| limit.saturating_sub(usage));
        Some(SwapUsage {
            timestamp: self.at,
            swap_available_bytes: available.and_then(value),
            swap_usage_bytes: value(usage),
        })
    }

    pub(super) fn io(&self) -> Option<IoUsage> {
        Some(IoUsage {
            timestamp: self.at,
            psi: Some(psi(self.stats.pressure.io.as_ref())?),
        })
    }
}

fn psi(pressure: Option<&Pressure>) -> Option<PsiStats> {
    let data = |stall: &Stall| PsiData {
        total: stall.total_us,
        avg10: stall.avg10,
        avg60: stall.avg60,
        avg300: stall.avg300,
    };
    pressure.map(|pressure| PsiStats {
        full: Some(data(&pressure.full)),
        some: Some(data(&pressure.some)),
    })
}

/// A figure in CRI's wrapping, in which "unknown" and zero differ.
pub(super) fn value(value: u64) -> Option<UInt64Value> {
    Some(UInt64Value { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_is_what_was_used_in_the_time_between() {
        let mut meter = Meter::default();
        meter.note(0, 1_000);
        meter.note(1_000_000, 900_000);
        assert_eq!(meter.nano_cores, None, "too soon to tell");
        meter.note(2_000_000_000, 500_001_000);
        assert_eq!(meter.nano_cores, Some(250_000_000));
    }
}
