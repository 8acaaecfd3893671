//! What a cgroup uses, read from files kept open.

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

/// A cgroup's files of numbers, opened once and read again and again.
///
/// Opening costs more than reading. Files of a controller that is not there are left out; once the
/// cgroup is removed every reading fails with an error that [`Error::is_not_found`] knows.
#[derive(Debug)]
pub struct StatsReader {
    cpu: cpu::Reader,
    memory: memory::Reader,
    pids: pids::Reader,
    io: io::Reader,
    pressure: pressure::Reader,
    hugetlb: hugetlb::Reader,
    buffer: Vec<u8>,
}

impl StatsReader {
    /// Opens what there is.
    pub fn open(cgroup: &Cgroup) -> Result<Self, Error> {
        Ok(Self {
            cpu: cpu::Reader::open(cgroup)?,
            memory: memory::Reader::open(cgroup)?,
            pids: pids::Reader::open(cgroup)?,
            io: io::Reader::open(cgroup)?,
            pressure: pressure::Reader::open(cgroup)?,
            hugetlb: hugetlb::Reader::open(cgroup)?,
            buffer: Vec::with_capacity(8 << 10),
        })
    }

    /// Reads everything.
    pub fn read(&mut self) -> Result<Stats, Error> {
        let usual = self.usual()?;
        let buffer = &mut self.buffer;
        Ok(Stats {
            io: self.io.read(buffer)?,
            hugetlb: self.hugetlb.read(buffer)?,
            ..usual
        })
    }

    /// Reads all but devices and huge pages, which are many files that few ask for.
    pub fn usual(&mut self) -> Result<Stats, Error> {
        let buffer = &mut self.buffer;
        Ok(Stats {
            cpu: self.cpu.read(buffer)?,
            memory: self.memory.read(buffer)?,
            pids: self.pids.read(buffer)?,
            pressure: self.pressure.read(buffer)?,
            ..Stats::default()
        })
    }

    /// Reads CPU time alone.
    pub fn cpu(&mut self) -> Result<Option<CpuStats>, Error> {
        self.cpu.read(&mut self.buffer)
    }

    /// Reads memory alone.
    pub fn memory(&mut self) -> Result<Option<MemoryStats>, Error> {
        self.memory.read(&mut self.buffer)
    }

    /// Reads how often processes were killed for want of memory.
    pub fn oom(&mut self) -> Result<Option<OomCounts>, Error> {
        self.memory.oom(&mut self.buffer)
    }
}
