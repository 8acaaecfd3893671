//! Reader of one cgroup's statistics, which remembers the last reading.

use std::time::{Duration, Instant};

use orlop_cgroup::{Cgroup, PidsStats, Stall, Stats, StatsReader};
use orlop_cri_api::v1::{
    CpuUsage, IoUsage, MemoryUsage, ProcessUsage, PsiData, PsiStats, SwapUsage, UInt64Value,
};
use orlop_network::{InterfaceTraffic, TrafficReader};

use super::processes::Processes;
use super::writable_layer::WritableLayer;
use crate::clock;

/// Minimum time between two readings for a CPU rate.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// Repeatedly reads the statistics of a cgroup.
#[derive(Debug, Default)]
pub struct Meter {
    reader: Option<StatsReader>,
    traffic: Option<TrafficReader>,
    last: Option<Sample>,
    nano_cores: Option<u64>,
    /// The container's writable layer.
    pub layer: WritableLayer,
    /// The container's processes.
    pub processes: Processes,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Instant,
    usage_ns: u64,
}

/// One reading.
#[derive(Debug)]
pub struct Reading {
    /// The time in nanoseconds since 1970.
    pub at: i64,
    stats: Stats,
    nano_cores: Option<u64>,
}

impl Meter {
    /// Reads all statistics. `None` if the cgroup is gone, for example because its last process has exited. `cgroup` is
    /// called only until the cgroup is found.
    pub fn read(&mut self, cgroup: impl Fn() -> Option<Cgroup>) -> Option<Reading> {
        self.read_or(cgroup, || None)
    }

    /// Reads all statistics. If nothing has run in the cgroup, as with a VM runtime, `others` supplies them.
    pub fn read_or(
        &mut self,
        cgroup: impl Fn() -> Option<Cgroup>,
        others: impl FnOnce() -> Option<Stats>,
    ) -> Option<Reading> {
        self.read_by(cgroup, StatsReader::read, others)
    }

    /// Reads the values that CRI statistics need; otherwise like [`Self::read`].
    pub fn read_usual(&mut self, cgroup: impl Fn() -> Option<Cgroup>) -> Option<Reading> {
        self.read_usual_or(cgroup, || None)
    }

    /// Reads the values that CRI statistics need. If nothing has run in the cgroup, `others` supplies them.
    pub fn read_usual_or(
        &mut self,
        cgroup: impl Fn() -> Option<Cgroup>,
        others: impl FnOnce() -> Option<Stats>,
    ) -> Option<Reading> {
        self.read_by(cgroup, StatsReader::usual, others)
    }

    /// Reads the values that pod statistics need: the usual ones and the number of processes. `others` is the fallback
    /// if nothing has run in the cgroup.
    pub fn read_pod(
        &mut self,
        cgroup: impl Fn() -> Option<Cgroup>,
        others: impl FnOnce() -> Option<Stats>,
    ) -> Option<Reading> {
        let with_tasks = |reader: &mut StatsReader| {
            let pids = reader.tasks()?.map(|current| PidsStats {
                current,
                limit: None,
            });
            let usual = reader.usual()?;
            Ok(Stats { pids, ..usual })
        };
        self.read_by(cgroup, with_tasks, others)
    }

    fn read_by(
        &mut self,
        cgroup: impl Fn() -> Option<Cgroup>,
        read: impl Fn(&mut StatsReader) -> Result<Stats, orlop_cgroup::Error>,
        others: impl FnOnce() -> Option<Stats>,
    ) -> Option<Reading> {
        let own = self.own(cgroup, read);
        let has_run = |stats: &Stats| stats.cpu.as_ref().is_some_and(|cpu| cpu.usage_ns > 0);
        let stats = match own {
            Some(stats) if has_run(&stats) => stats,
            own => others().or(own)?,
        };
        if let Some(cpu) = &stats.cpu {
            self.note(Sample {
                at: Instant::now(),
                usage_ns: cpu.usage_ns,
            });
        }
        Some(Reading {
            at: clock::now(),
            stats,
            nano_cores: self.nano_cores,
        })
    }

    /// Reads the cgroup's own statistics.
    fn own(
        &mut self,
        cgroup: impl Fn() -> Option<Cgroup>,
        read: impl Fn(&mut StatsReader) -> Result<Stats, orlop_cgroup::Error>,
    ) -> Option<Stats> {
        let kept = self.reader.take().and_then(|mut reader| {
            let stats = read(&mut reader).ok()?;
            Some((reader, stats))
        });
        // A removed cgroup may have been recreated, as a pod's is when its containers come and go.
        let (reader, stats) = if let Some(kept) = kept {
            kept
        } else {
            let mut reader = StatsReader::new(&cgroup()?);
            let stats = read(&mut reader).ok()?;
            (reader, stats)
        };
        // A controller may be added later: without CPU and memory values, the cgroup is looked up again.
        if stats.cpu.is_some() || stats.memory.is_some() {
            self.reader = Some(reader);
        }
        Some(stats)
    }

    /// Returns the cgroup that was read last.
    pub fn cgroup(&self) -> Option<&Cgroup> {
        self.reader.as_ref().map(StatsReader::cgroup)
    }

    /// Returns the number of processes that the OOM killer has killed in that cgroup.
    pub fn oom_kills(&mut self) -> u64 {
        let counts = self.reader.as_mut().and_then(|reader| reader.oom().ok());
        counts.flatten().map_or(0, |counts| counts.kills)
    }

    /// Reads the traffic of the interfaces in a process's network namespace. The namespace is looked up once and held
    /// until [`Self::close`].
    pub fn traffic(&mut self, pid: u32) -> Vec<InterfaceTraffic> {
        let reader = match self.traffic.take() {
            Some(reader) => Ok(reader),
            None => TrafficReader::of_process(pid),
        };
        let Ok(reader) = reader else {
            return Vec::new();
        };
        let read = reader.read();
        self.traffic = read.is_ok().then_some(reader);
        read.unwrap_or_default()
    }

    /// Forgets the cgroup and releases the namespace.
    pub fn close(&mut self) {
        self.reader = None;
        self.traffic = None;
    }

    fn note(&mut self, sample: Sample) {
        if let Some(last) = self.last {
            let elapsed = sample.at.saturating_duration_since(last.at);
            if elapsed < MIN_INTERVAL {
                return;
            }
            let used = u128::from(sample.usage_ns.saturating_sub(last.usage_ns));
            let speed = used * 1_000_000_000 / elapsed.as_nanos();
            self.nano_cores = u64::try_from(speed).ok();
        }
        self.last = Some(sample);
    }
}

impl Reading {
    /// Returns all statistics of the reading.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Returns the CPU time, and the rate since the last reading.
    pub fn cpu(&self) -> Option<CpuUsage> {
        let cpu = self.stats.cpu.as_ref()?;
        Some(CpuUsage {
            timestamp: self.at,
            usage_core_nano_seconds: value(cpu.usage_ns),
            usage_nano_cores: self.nano_cores.and_then(value),
            psi: psi(self.stats.pressure.cpu.as_ref()),
        })
    }

    /// Returns the memory usage.
    pub fn memory(&self) -> Option<MemoryUsage> {
        let memory = self.stats.memory.as_ref()?;
        Some(MemoryUsage {
            timestamp: self.at,
            working_set_bytes: value(memory.working_set),
            available_bytes: value(memory.available().unwrap_or(0)),
            usage_bytes: value(memory.usage),
            rss_bytes: value(memory.rss),
            page_faults: value(memory.page_faults),
            major_page_faults: value(memory.major_page_faults),
            psi: psi(self.stats.pressure.memory.as_ref()),
        })
    }

    /// Returns the swap usage, if it is accounted.
    pub fn swap(&self) -> Option<SwapUsage> {
        let memory = self.stats.memory.as_ref()?;
        let usage = memory.swap_usage?;
        let available = memory.swap_limit.map(|limit| limit.saturating_sub(usage));
        Some(SwapUsage {
            timestamp: self.at,
            swap_available_bytes: available.and_then(value),
            swap_usage_bytes: value(usage),
        })
    }

    /// Returns the time lost waiting for I/O, if it is accounted.
    pub fn io(&self) -> Option<IoUsage> {
        let pressure = psi(self.stats.pressure.io.as_ref())?;
        Some(IoUsage {
            timestamp: self.at,
            psi: Some(pressure),
        })
    }

    /// Returns the number of processes and threads.
    pub fn processes(&self) -> Option<ProcessUsage> {
        let pids = self.stats.pids.as_ref()?;
        Some(ProcessUsage {
            timestamp: self.at,
            process_count: value(pids.current),
        })
    }
}

fn psi(pressure: Option<&orlop_cgroup::Pressure>) -> Option<PsiStats> {
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

/// Wraps a value for the CRI, which distinguishes "unknown" from zero.
pub fn value(value: u64) -> Option<UInt64Value> {
    Some(UInt64Value { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_is_what_was_used_in_the_time_between() {
        let mut meter = Meter::default();
        let start = Instant::now();
        let after = |milliseconds| start + Duration::from_millis(milliseconds);
        meter.note(Sample {
            at: start,
            usage_ns: 1_000,
        });
        assert_eq!(meter.nano_cores, None);
        // One millisecond is too short for a rate.
        meter.note(Sample {
            at: after(1),
            usage_ns: 900_000,
        });
        assert_eq!(meter.nano_cores, None);
        meter.note(Sample {
            at: after(2000),
            usage_ns: 500_001_000,
        });
        assert_eq!(meter.nano_cores, Some(250_000_000));
    }
}
