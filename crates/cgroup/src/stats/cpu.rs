//! CPU time.

use super::file::{StatFile, field};
use crate::{Cgroup, Error};

/// CPU time of a cgroup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuStats {
    /// All of it, in nanoseconds.
    pub usage_ns: u64,
    /// Outside of the kernel, in nanoseconds.
    pub user_ns: u64,
    /// In the kernel, in nanoseconds.
    pub system_ns: u64,
    /// Periods of the bandwidth limit in which something ran.
    pub periods: u64,
    /// Those in which the limit was reached.
    pub throttled_periods: u64,
    /// Time spent waiting for the next period, in nanoseconds.
    pub throttled_ns: u64,
}

#[derive(Debug)]
pub(super) enum Reader {
    V1 {
        usage: Option<StatFile>,
        user: Option<StatFile>,
        system: Option<StatFile>,
        bandwidth: Option<StatFile>,
    },
    V2 {
        stat: Option<StatFile>,
    },
}

impl Reader {
    pub(super) fn open(cgroup: &Cgroup) -> Result<Self, Error> {
        let cpu = cgroup.directory("cpu");
        if cgroup.hierarchies().is_v2() {
            return Ok(Self::V2 {
                stat: StatFile::open(cpu.as_deref(), "cpu.stat")?,
            });
        }
        let accounting = cgroup.directory("cpuacct");
        let accounting = accounting.as_deref();
        Ok(Self::V1 {
            usage: StatFile::open(accounting, "cpuacct.usage")?,
            user: StatFile::open(accounting, "cpuacct.usage_user")?,
            system: StatFile::open(accounting, "cpuacct.usage_sys")?,
            bandwidth: StatFile::open(cpu.as_deref(), "cpu.stat")?,
        })
    }

    pub(super) fn read(&self, buffer: &mut Vec<u8>) -> Result<Option<CpuStats>, Error> {
        match self {
            Self::V2 { stat: None } | Self::V1 { usage: None, .. } => Ok(None),
            Self::V2 { stat: Some(stat) } => {
                let text = stat.text(buffer)?;
                Ok(Some(CpuStats {
                    usage_ns: field(text, "usage_usec") * 1000,
                    user_ns: field(text, "user_usec") * 1000,
                    system_ns: field(text, "system_usec") * 1000,
                    periods: field(text, "nr_periods"),
                    throttled_periods: field(text, "nr_throttled"),
                    throttled_ns: field(text, "throttled_usec") * 1000,
                }))
            }
            Self::V1 {
                usage: Some(usage),
                user,
                system,
                bandwidth,
            } => {
                let mut number = |file: &Option<StatFile>| match file {
                    Some(file) => file.number(buffer).map(Option::unwrap_or_default),
                    None => Ok(0),
                };
                let mut stats = CpuStats {
                    user_ns: number(user)?,
                    system_ns: number(system)?,
                    usage_ns: usage.number(buffer)?.unwrap_or_default(),
                    ..CpuStats::default()
                };
                if let Some(bandwidth) = bandwidth {
                    let text = bandwidth.text(buffer)?;
                    stats.periods = field(text, "nr_periods");
                    stats.throttled_periods = field(text, "nr_throttled");
                    stats.throttled_ns = field(text, "throttled_time");
                }
                Ok(Some(stats))
            }
        }
    }
}
