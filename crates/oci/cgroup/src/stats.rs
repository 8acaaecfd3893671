//! What a cgroup uses, read from its files.

mod cpu;
mod file;
mod hugetlb;
mod io;
mod memory;
mod pids;
mod pressure;

pub use cpu::CpuStats;
pub use hugetlb::HugetlbStats;
pub use io::DeviceStats;
pub use memory::{MemoryStats, OomCounts};
pub use pids::PidsStats;
pub use pressure::{Pressure, PressureStats, Stall};

use file::Files;

use crate::{Cgroup, Error};

/// What a cgroup uses. Parts whose controller is missing are absent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stats {
    /// CPU time.
    pub cpu: Option<CpuStats>,
    /// Memory and swap.
    pub memory: Option<MemoryStats>,
    /// Processes.
    pub pids: Option<PidsStats>,
    /// Block devices, by number.
    pub io: Vec<DeviceStats>,
    /// Time lost waiting (version 2 only).
    pub pressure: PressureStats,
    /// Huge pages, by size.
    pub hugetlb: Vec<HugetlbStats>,
}

/// A cgroup's files of numbers, read again and again.
///
/// Files of a controller that is not there are left out; once the cgroup is removed every reading
/// fails with an error that [`Error::is_not_found`] knows.
#[derive(Debug)]
pub struct StatsReader {
    files: Files,
    hugetlb: hugetlb::Reader,
}

impl StatsReader {
    /// Of this cgroup. Nothing is read before it is asked for.
    pub fn new(cgroup: &Cgroup) -> Self {
        Self {
            files: Files::of(cgroup),
            hugetlb: hugetlb::Reader::default(),
        }
    }

    /// Whose figures these are.
    pub fn cgroup(&self) -> &Cgroup {
        self.files.cgroup()
    }

    /// Reads everything.
    pub fn read(&mut self) -> Result<Stats, Error> {
        let Self { files, hugetlb } = self;
        by(files, |files, buffer| {
            Ok(Stats {
                cpu: cpu::read(files, buffer)?,
                memory: memory::read(files, buffer)?,
                pids: pids::read(files, buffer)?,
                io: io::read(files, buffer)?,
                pressure: pressure::read(files, buffer)?,
                hugetlb: hugetlb.read(files.cgroup(), buffer)?,
            })
        })
    }

    /// Reads what most ask for: how much CPU time was used, memory without its history, and
    /// pressure. The rest is many files more.
    pub fn usual(&mut self) -> Result<Stats, Error> {
        by(&mut self.files, |files, buffer| {
            Ok(Stats {
                cpu: cpu::usage(files, buffer)?,
                memory: memory::usual(files, buffer)?,
                pressure: pressure::read(files, buffer)?,
                ..Stats::default()
            })
        })
    }

    /// Reads CPU time alone.
    pub fn cpu(&mut self) -> Result<Option<CpuStats>, Error> {
        by(&mut self.files, cpu::read)
    }

    /// Reads memory alone.
    pub fn memory(&mut self) -> Result<Option<MemoryStats>, Error> {
        by(&mut self.files, memory::read)
    }

    /// Reads how many processes and threads there are.
    pub fn tasks(&mut self) -> Result<Option<u64>, Error> {
        by(&mut self.files, pids::current)
    }

    /// Reads how often processes were killed for want of memory.
    pub fn oom(&mut self) -> Result<Option<OomCounts>, Error> {
        by(&mut self.files, memory::oom)
    }
}

/// One reading.
fn by<T>(
    files: &mut Files,
    read: impl FnOnce(&mut Files, &mut Vec<u8>) -> Result<T, Error>,
) -> Result<T, Error> {
    let done = read(files, &mut Vec::new());
    files.close();
    done
}
