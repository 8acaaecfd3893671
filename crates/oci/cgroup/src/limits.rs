//! Limits of a cgroup, written with the files of the version in use.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::weight::cpu_weight;
use crate::{Cgroup, Error};

/// Limits of a cgroup; `None` leaves a value unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// Relative share of CPU time, on version 1's scale of 2 to 262144.
    pub cpu_shares: Option<u64>,
    /// Microseconds of CPU time in each period; -1 for no limit.
    pub cpu_quota: Option<i64>,
    /// Length of a period in microseconds.
    pub cpu_period: Option<u64>,
    /// CPUs, such as `0-3,7`.
    pub cpuset_cpus: Option<String>,
    /// Memory nodes, such as `0-1`.
    pub cpuset_mems: Option<String>,
    /// Bytes of memory; -1 for no limit.
    pub memory: Option<i64>,
    /// Bytes of memory and swap together; -1 for no limit.
    pub memory_and_swap: Option<i64>,
    /// Number of processes; -1 for no limit.
    pub pids: Option<i64>,
    /// Bytes of huge pages, by page size such as `2MB`.
    pub hugepages: BTreeMap<String, u64>,
    /// Files of version 2, written unchanged.
    pub unified: BTreeMap<String, String>,
}

impl Cgroup {
    /// Sets limits.
    pub fn set(&self, limits: &Limits) -> Result<(), Error> {
        let writer = Writer { cgroup: self };
        if self.hierarchies().is_v2() {
            writer.v2(limits)
        } else {
            writer.v1(limits)
        }
    }
}

struct Writer<'a> {
    cgroup: &'a Cgroup,
}

impl Writer<'_> {
    fn v1(&self, limits: &Limits) -> Result<(), Error> {
        if let Some(shares) = limits.cpu_shares {
            self.write("cpu", "cpu.shares", shares.max(2))?;
        }
        self.cpu_bandwidth_v1(limits)?;
        self.cpuset(limits)?;
        self.memory_v1(limits)?;
        if let Some(pids) = limits.pids {
            self.write("pids", "pids.max", or_max(pids))?;
        }
        for (size, bytes) in &limits.hugepages {
            self.write("hugetlb", &format!("hugetlb.{size}.limit_in_bytes"), bytes)?;
        }
        if limits.unified.is_empty() {
            Ok(())
        } else {
            Err(Error::NoController("unified (v2)"))
        }
    }

    /// Sets quota and period, which must fit the parent and child cgroups after each single write. A write that fails
    /// at first may succeed once the other value is set.
    fn cpu_bandwidth_v1(&self, limits: &Limits) -> Result<(), Error> {
        let period = || match limits.cpu_period {
            Some(period) => self.write("cpu", "cpu.cfs_period_us", period),
            None => Ok(()),
        };
        let quota = || match limits.cpu_quota {
            Some(quota) => self.write("cpu", "cpu.cfs_quota_us", quota),
            None => Ok(()),
        };
        match period() {
            Err(Error::Io { source, .. }) if source.raw_os_error() == Some(libc::EINVAL) => {
                quota()?;
                period()
            }
            set => set.and_then(|()| quota()),
        }
    }

    /// Sets memory and swap limits. The memory limit may never exceed that of both: the growing one is written first.
    fn memory_v1(&self, limits: &Limits) -> Result<(), Error> {
        const MEMORY: &str = "memory.limit_in_bytes";
        const BOTH: &str = "memory.memsw.limit_in_bytes";
        let memory = || {
            limits
                .memory
                .map_or(Ok(()), |bytes| self.write("memory", MEMORY, bytes))
        };
        let both = || {
            limits
                .memory_and_swap
                .map_or(Ok(()), |bytes| self.write("memory", BOTH, bytes))
        };
        match memory() {
            Err(Error::Io { source, .. }) if source.raw_os_error() == Some(libc::EINVAL) => {
                both()?;
                memory()
            }
            set => set.and_then(|()| both()),
        }
    }

    fn v2(&self, limits: &Limits) -> Result<(), Error> {
        if let Some(shares) = limits.cpu_shares {
            self.write("cpu", "cpu.weight", cpu_weight(shares))?;
        }
        match (limits.cpu_quota, limits.cpu_period) {
            (None, None) => {}
            (quota, period) => {
                // An absent value is kept; the file takes both at once.
                let current = self.read("cpu", "cpu.max")?;
                let mut current = current.split_whitespace();
                let quota = match quota {
                    Some(quota) => or_max(quota),
                    None => current.next().unwrap_or("max").to_owned(),
                };
                let text = match period.map(|period| period.to_string()) {
                    Some(period) => format!("{quota} {period}"),
                    None => quota,
                };
                self.write("cpu", "cpu.max", text)?;
            }
        }
        self.cpuset(limits)?;
        if let Some(bytes) = limits.memory {
            self.write("memory", "memory.max", or_max(bytes))?;
        }
        if let Some(both) = limits.memory_and_swap {
            let memory = match limits.memory {
                Some(memory) => memory,
                None => self
                    .read("memory", "memory.max")?
                    .trim()
                    .parse()
                    .unwrap_or(-1),
            };
            // Version 2 limits swap without memory.
            let swap = if both < 0 || memory < 0 {
                -1
            } else {
                (both - memory).max(0)
            };
            self.write("memory", "memory.swap.max", or_max(swap))?;
        }
        if let Some(pids) = limits.pids {
            self.write("pids", "pids.max", or_max(pids))?;
        }
        for (size, bytes) in &limits.hugepages {
            self.write("hugetlb", &format!("hugetlb.{size}.max"), bytes)?;
        }
        for (file, value) in &limits.unified {
            let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
            if !file.chars().all(fits) || !file.contains('.') || file.starts_with('.') {
                return Err(Error::Format {
                    path: PathBuf::from("unified"),
                    text: file.clone(),
                    expected: "the name of a controller file",
                });
            }
            self.write("cgroup", file, value)?;
        }
        Ok(())
    }

    fn cpuset(&self, limits: &Limits) -> Result<(), Error> {
        if let Some(cpus) = &limits.cpuset_cpus {
            self.write("cpuset", "cpuset.cpus", cpus)?;
        }
        if let Some(mems) = &limits.cpuset_mems {
            self.write("cpuset", "cpuset.mems", mems)?;
        }
        Ok(())
    }

    fn write(
        &self,
        controller: &'static str,
        name: &str,
        value: impl ToString,
    ) -> Result<(), Error> {
        let file = self.file(controller, name)?;
        write_existing(&file, value.to_string().as_bytes()).map_err(Error::io("writing", file))
    }

    fn read(&self, controller: &'static str, name: &str) -> Result<String, Error> {
        let file = self.file(controller, name)?;
        orlop_fs::read_kernel_text(&file).map_err(Error::io("reading", file))
    }

    fn file(&self, controller: &'static str, name: &str) -> Result<PathBuf, Error> {
        let directory = self.cgroup.directory(controller);
        Ok(directory.ok_or(Error::NoController(controller))?.join(name))
    }
}

/// Writes to an existing file and never creates it: a missing controller must cause an error.
fn write_existing(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = fs::OpenOptions::new().write(true).open(file)?;
    let written = rustix::io::write(&file, bytes)?;
    if written == bytes.len() {
        Ok(())
    } else {
        Err(io::ErrorKind::WriteZero.into())
    }
}

fn or_max(value: i64) -> String {
    if value < 0 {
        "max".to_owned()
    } else {
        value.to_string()
    }
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
