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
        let buffer = &mut Vec::new();
        Ok(Stats {
            cpu: cpu::read(&mut self.files, buffer)?,
            memory: memory::read(&mut self.files, buffer)?,
            pids: pids::read(&mut self.files, buffer)?,
            io: io::read(&mut self.files, buffer)?,
            pressure: pressure::read(&mut self.files, buffer)?,
            hugetlb: self.hugetlb.read(self.files.cgroup(), buffer)?,
        })
    }

    /// Reads what most ask for: how much CPU time was used, memory without its history, and
    /// pressure. The rest is many files more.
    pub fn usual(&mut self) -> Result<Stats, Error> {
        let buffer = &mut Vec::new();
        Ok(Stats {
            cpu: cpu::usage(&mut self.files, buffer)?,
            memory: memory::usual(&mut self.files, buffer)?,
            pressure: pressure::read(&mut self.files, buffer)?,
            ..Stats::default()
        })
    }

    /// Reads CPU time alone.
    pub fn cpu(&mut self) -> Result<Option<CpuStats>, Error> {
        cpu::read(&mut self.files, &mut Vec::new())
    }

    /// Reads memory alone.
    pub fn memory(&mut self) -> Result<Option<MemoryStats>, Error> {
        memory::read(&mut self.files, &mut Vec::new())
    }

    /// Reads how many processes and threads there are.
    pub fn tasks(&mut self) -> Result<Option<u64>, Error> {
        pids::current(&mut self.files, &mut Vec::new())
    }

    /// Reads how often processes were killed for want of memory.
    pub fn oom(&mut self) -> Result<Option<OomCounts>, Error> {
        memory::oom(&mut self.files, &mut Vec::new())
    }
}
