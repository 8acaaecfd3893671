//! CPU time.

use super::file::{Files, Name, fields};
use crate::Error;

/// CPU time of a cgroup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuStats {
    /// Total CPU time, in nanoseconds.
    pub usage_ns: u64,
    /// CPU time in user mode, in nanoseconds.
    pub user_ns: u64,
    /// CPU time in the kernel, in nanoseconds.
    pub system_ns: u64,
    /// Periods of the bandwidth limit in which a process ran.
    pub periods: u64,
    /// Periods in which the limit was reached.
    pub throttled_periods: u64,
    /// Time spent waiting for the next period, in nanoseconds.
    pub throttled_ns: u64,
    /// Periods in which saved up time was used beyond the limit.
    pub bursts: u64,
    /// CPU time used beyond the limit in those periods, in nanoseconds.
    pub burst_ns: u64,
}

/// Reads all values.
pub(super) fn read(files: &mut Files, buffer: &mut Vec<u8>) -> Result<Option<CpuStats>, Error> {
    let Some(mut stats) = usage(files, buffer)? else {
        return Ok(None);
    };
    if !files.is_v2() {
        stats.user_ns = files.number(Name::CpuUser, buffer)?;
        stats.system_ns = files.number(Name::CpuSystem, buffer)?;
        if let Some(text) = files.text(Name::CpuStat, buffer)? {
            bandwidth(text, &mut stats);
        }
    }
    Ok(Some(stats))
}

/// Reads the used time; the other values only if they are in the same file.
pub(super) fn usage(files: &mut Files, buffer: &mut Vec<u8>) -> Result<Option<CpuStats>, Error> {
    if files.is_v2() {
        let text = files.text(Name::CpuStat, buffer)?;
        return Ok(text.map(|text| {
            let mut stats = CpuStats::default();
            bandwidth(text, &mut stats);
            stats
        }));
    }
    let usage = files.optional_number(Name::CpuUsage, buffer)?;
    Ok(usage.map(|usage_ns| CpuStats {
        usage_ns,
        ..CpuStats::default()
    }))
}

fn bandwidth(text: &[u8], stats: &mut CpuStats) {
    for (name, number) in fields(text) {
        match name {
            b"usage_usec" => stats.usage_ns = number * 1000,
            b"user_usec" => stats.user_ns = number * 1000,
            b"system_usec" => stats.system_ns = number * 1000,
            b"nr_periods" => stats.periods = number,
            b"nr_throttled" => stats.throttled_periods = number,
            b"throttled_usec" => stats.throttled_ns = number * 1000,
            b"nr_bursts" => stats.bursts = number,
            b"burst_usec" => stats.burst_ns = number * 1000,
            // Version 1 counts nanoseconds.
            b"throttled_time" => stats.throttled_ns = number,
            b"burst_time" => stats.burst_ns = number,
            _ => {}
        }
    }
}
