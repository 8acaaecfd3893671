//! Resource usage of a cgroup, read from its files.

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

/// Resource usage of a cgroup. Parts whose controller is missing are absent.
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
    /// Pressure stall information (version 2 only).
    pub pressure: PressureStats,
    /// Huge pages, by size.
    pub hugetlb: Vec<HugetlbStats>,
}

/// Reads the statistics of a cgroup repeatedly.
///
/// Files of a missing controller are left out. Once the cgroup is removed, every read fails with an error for which
/// [`Error::is_not_found`] is true.
#[derive(Debug)]
pub struct StatsReader {
    files: Files,
    hugetlb: hugetlb::Reader,
}

impl StatsReader {
    /// Creates a reader for this cgroup. Files are read only when they are needed.
    pub fn new(cgroup: &Cgroup) -> Self {
        Self {
            files: Files::of(cgroup),
            hugetlb: hugetlb::Reader::default(),
        }
    }

    /// Returns the cgroup that is read.
    pub fn cgroup(&self) -> &Cgroup {
        self.files.cgroup()
    }

    /// Reads all statistics.
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

    /// Reads the most used values: CPU time, memory without its history, and pressure. The others need many more files.
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

    /// Reads only CPU time.
    pub fn cpu(&mut self) -> Result<Option<CpuStats>, Error> {
        by(&mut self.files, cpu::read)
    }

    /// Reads only memory.
    pub fn memory(&mut self) -> Result<Option<MemoryStats>, Error> {
        by(&mut self.files, memory::read)
    }

    /// Reads the number of processes and threads.
    pub fn tasks(&mut self) -> Result<Option<u64>, Error> {
        by(&mut self.files, pids::current)
    }

    /// Reads the number of OOM kills.
    pub fn oom(&mut self) -> Result<Option<OomCounts>, Error> {
        by(&mut self.files, memory::oom)
    }
}

/// Performs one read and closes the files.
fn by<T>(
    files: &mut Files,
    read: impl FnOnce(&mut Files, &mut Vec<u8>) -> Result<T, Error>,
) -> Result<T, Error> {
    let done = read(files, &mut Vec::new());
    files.close();
    done
}
