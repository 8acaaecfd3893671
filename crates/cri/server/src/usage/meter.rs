//! The figures of one cgroup, with what the last reading said.

use std::time::{Duration, Instant};

use orlop_cgroup::{Cgroup, PidsStats, Stall, Stats, StatsReader};
use orlop_cri_api::v1::{
    CpuUsage, IoUsage, MemoryUsage, ProcessUsage, PsiData, PsiStats, SwapUsage, UInt64Value,
};
use orlop_network::{InterfaceTraffic, TrafficReader};

use super::processes::Processes;
use super::writable_layer::WritableLayer;
use crate::clock;

/// Two readings closer together say nothing about speed.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// Reads a cgroup again and again.
#[derive(Debug, Default)]
pub struct Meter {
    reader: Option<StatsReader>,
    traffic: Option<TrafficReader>,
    last: Option<Sample>,
    nano_cores: Option<u64>,
    /// What the container has written, if it is one.
    pub layer: WritableLayer,
    /// What its processes do, if it is a container.
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
    /// When: nanoseconds since 1970.
    pub at: i64,
    stats: Stats,
    nano_cores: Option<u64>,
}

impl Meter {
    /// Reads everything; nothing where the cgroup is gone, as it is after the last process. Where
    /// it is, is asked only until it was found.
    pub fn read(&mut self, cgroup: impl Fn() -> Option<Cgroup>) -> Option<Reading> {
        self.read_or(cgroup, || None)
    }

    /// The same; where nothing has run there, because it runs in a kernel of its own, others tell.
    pub fn read_or(
        &mut self,
        cgroup: impl Fn() -> Option<Cgroup>,
        others: impl FnOnce() -> Option<Stats>,
    ) -> Option<Reading> {
        self.read_by(cgroup, StatsReader::read, others)
    }

    /// Reads what statistics tell, likewise.
    pub fn read_usual(&mut self, cgroup: impl Fn() -> Option<Cgroup>) -> Option<Reading> {
        self.read_usual_or(cgroup, || None)
    }

    /// The same; where nothing has run there, others tell.
    pub fn read_usual_or(
        &mut self,
        cgroup: impl Fn() -> Option<Cgroup>,
        others: impl FnOnce() -> Option<Stats>,
    ) -> Option<Reading> {
        self.read_by(cgroup, StatsReader::usual, others)
    }

    /// Reads what statistics of pods tell: the same, and how many processes there are. What others know
    /// counts where its cgroup has seen nothing run.
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

    /// What the cgroup itself tells.
    fn own(
        &mut self,
        cgroup: impl Fn() -> Option<Cgroup>,
        read: impl Fn(&mut StatsReader) -> Result<Stats, orlop_cgroup::Error>,
    ) -> Option<Stats> {
        let kept = self.reader.take().and_then(|mut reader| {
            let stats = read(&mut reader).ok()?;
            Some((reader, stats))
        });
        // One that is gone may have been made anew, as a pod's is whose containers come and go.
        let (reader, stats) = if let Some(kept) = kept {
            kept
        } else {
            let mut reader = StatsReader::new(&cgroup()?);
            let stats = read(&mut reader).ok()?;
            (reader, stats)
        };
        // And one that is not there yet may be made: what is missing is looked for again.
        if stats.cpu.is_some() || stats.memory.is_some() {
            self.reader = Some(reader);
        }
        Some(stats)
    }

    /// The cgroup that was read last.
    pub fn cgroup(&self) -> Option<&Cgroup> {
        self.reader.as_ref().map(StatsReader::cgroup)
    }

    /// How many processes were killed for want of memory where was read last.
    pub fn oom_kills(&mut self) -> u64 {
        let counts = self.reader.as_mut().and_then(|reader| reader.oom().ok());
        counts.flatten().map_or(0, |counts| counts.kills)
    }

    /// What went over the interfaces of the namespace that a process lives in: the same one each
    /// time. The namespace stays until this is closed.
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

    /// Forgets where was read, which is over, and lets go of the namespace.
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
    /// All that was read.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// CPU time, and the speed since the last reading.
    pub fn cpu(&self) -> Option<CpuUsage> {
        let cpu = self.stats.cpu.as_ref()?;
        Some(CpuUsage {
            timestamp: self.at,
            usage_core_nano_seconds: value(cpu.usage_ns),
            usage_nano_cores: self.nano_cores.and_then(value),
            psi: psi(self.stats.pressure.cpu.as_ref()),
        })
    }

    /// Memory.
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

    /// Swap, where it is counted.
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

    /// Time lost waiting for devices, where it is counted.
    pub fn io(&self) -> Option<IoUsage> {
        let pressure = psi(self.stats.pressure.io.as_ref())?;
        Some(IoUsage {
            timestamp: self.at,
            psi: Some(pressure),
        })
    }

    /// How many processes and threads there are.
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

/// A figure in CRI's wrapping, in which "unknown" and zero differ.
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
        // A millisecond later is too soon to tell.
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
