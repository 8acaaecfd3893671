//! Memory, swap, and OOM kills.

use super::file::{Files, Name, fields};
use crate::Error;

/// The value for no limit in version 1 is the largest number of whole pages.
const UNLIMITED_V1: u64 = 1 << 62;

/// Memory of a cgroup, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// All charged memory, including caches.
    pub usage: u64,
    /// Memory that cannot be reclaimed easily: all but the inactive part of the file cache.
    pub working_set: u64,
    /// The limit of this cgroup itself, if it has one.
    pub limit: Option<u64>,
    /// Anonymous memory.
    pub rss: u64,
    /// File cache.
    pub cache: u64,
    /// Mapped files.
    pub mapped_file: u64,
    /// Inactive part of the file cache.
    pub inactive_file: u64,
    /// Active part of the file cache.
    pub active_file: u64,
    /// Kernel memory charged to the cgroup.
    pub kernel: u64,
    /// Highest usage so far, if the kernel records it.
    pub peak: Option<u64>,
    /// Times the limit was hit.
    pub failures: u64,
    /// Page faults, including child cgroups.
    pub page_faults: u64,
    /// Page faults that had to read from a device, including child cgroups.
    pub major_page_faults: u64,
    /// Page faults in this cgroup only. Version 2 does not count them separately.
    pub own_page_faults: u64,
    /// Page faults in this cgroup only that had to read from a device.
    pub own_major_page_faults: u64,
    /// Swap in use, if it is accounted for.
    pub swap_usage: Option<u64>,
    /// Limit of swap alone, if there is one.
    pub swap_limit: Option<u64>,
}

impl MemoryStats {
    /// Returns the remaining memory, if there is a limit.
    pub fn available(&self) -> Option<u64> {
        Some(self.limit?.saturating_sub(self.working_set))
    }
}

/// Counts of out-of-memory events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OomCounts {
    /// Times the limit was reached and nothing could be freed (version 2 only).
    pub oom: u64,
    /// Processes killed because of it, in this cgroup and (version 2) below.
    pub kills: u64,
}

/// Reads all values.
pub(super) fn read(files: &mut Files, buffer: &mut Vec<u8>) -> Result<Option<MemoryStats>, Error> {
    let Some(mut stats) = usual(files, buffer)? else {
        return Ok(None);
    };
    stats.peak = files.optional_number(Name::MemoryPeak, buffer)?;
    stats.failures = if files.is_v2() {
        let events = files.text(Name::MemoryEvents, buffer)?;
        events.map_or(0, |text| field(text, b"max"))
    } else {
        stats.kernel = files.number(Name::MemoryKernel, buffer)?;
        files.number(Name::MemoryFailures, buffer)?
    };
    Ok(Some(stats))
}

/// Reads all values except the peak, the limit hits and, with version 1, the kernel memory.
pub(super) fn usual(files: &mut Files, buffer: &mut Vec<u8>) -> Result<Option<MemoryStats>, Error> {
    let Some(usage) = files.optional_number(Name::MemoryUsage, buffer)? else {
        return Ok(None);
    };
    let v2 = files.is_v2();
    let limited = |value: Option<u64>| value.filter(|bytes| *bytes < UNLIMITED_V1);
    let limit = limited(files.optional_number(Name::MemoryLimit, buffer)?);
    let swap_limit = limited(files.optional_number(Name::SwapLimit, buffer)?);
    let swap_usage = files.optional_number(Name::SwapUsage, buffer)?;
    let Some(text) = files.text(Name::MemoryStat, buffer)? else {
        return Ok(None);
    };
    let mut stats = if v2 { from_v2(text) } else { from_v1(text) };
    stats.usage = usage;
    stats.working_set = usage.saturating_sub(stats.inactive_file);
    stats.limit = limit;
    if v2 {
        stats.swap_usage = swap_usage;
        stats.swap_limit = swap_limit;
    } else {
        // Version 1 limits memory and swap together.
        stats.swap_limit = swap_limit.map(|both| both.saturating_sub(limit.unwrap_or(both)));
    }
    Ok(Some(stats))
}

/// Reads the counts of out-of-memory events.
pub(super) fn oom(files: &mut Files, buffer: &mut Vec<u8>) -> Result<Option<OomCounts>, Error> {
    let text = files.text(Name::MemoryEvents, buffer)?;
    Ok(text.map(|text| OomCounts {
        oom: field(text, b"oom"),
        kills: field(text, b"oom_kill"),
    }))
}

/// Returns the number after a name; 0 if it is missing.
fn field(text: &[u8], name: &[u8]) -> u64 {
    let found = fields(text).find(|(of, _)| *of == name);
    found.map_or(0, |(_, number)| number)
}

fn from_v2(text: &[u8]) -> MemoryStats {
    let mut stats = MemoryStats::default();
    // Older kernels have no total of their own memory.
    let (mut kernel, mut stack, mut slab) = (None, 0, 0);
    for (name, number) in fields(text) {
        match name {
            b"anon" => stats.rss = number,
            b"file" => stats.cache = number,
            b"file_mapped" => stats.mapped_file = number,
            b"inactive_file" => stats.inactive_file = number,
            b"active_file" => stats.active_file = number,
            b"kernel" => kernel = Some(number),
            b"kernel_stack" => stack = number,
            b"slab" => slab = number,
            b"pgfault" => stats.page_faults = number,
            b"pgmajfault" => stats.major_page_faults = number,
            _ => {}
        }
    }
    stats.kernel = kernel.unwrap_or(stack + slab);
    stats.own_page_faults = stats.page_faults;
    stats.own_major_page_faults = stats.major_page_faults;
    stats
}

/// Fields with `total_` include child cgroups.
fn from_v1(text: &[u8]) -> MemoryStats {
    let mut stats = MemoryStats::default();
    for (name, number) in fields(text) {
        match name {
            b"total_rss" => stats.rss = number,
            b"total_cache" => stats.cache = number,
            b"total_mapped_file" => stats.mapped_file = number,
            b"total_inactive_file" => stats.inactive_file = number,
            b"total_active_file" => stats.active_file = number,
            b"pgfault" => stats.own_page_faults = number,
            b"pgmajfault" => stats.own_major_page_faults = number,
            b"total_pgfault" => stats.page_faults = number,
            b"total_pgmajfault" => stats.major_page_faults = number,
            // Only present if swap is accounted for.
            b"total_swap" => stats.swap_usage = Some(number),
            _ => {}
        }
    }
    stats
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_tell_the_same() {
        let v1 = from_v1(
            b"cache 1\nrss 2\ntotal_cache 30\ntotal_rss 40\ntotal_mapped_file 5\n\
              total_swap 8\ntotal_pgfault 6\ntotal_pgmajfault 7\ntotal_inactive_file 9\n\
              total_active_file 10\npgfault 6\npgmajfault 7\n",
        );
        let v2 = from_v2(
            b"anon 40\nfile 30\nkernel 0\nkernel_stack 1\nslab 2\nfile_mapped 5\n\
              inactive_file 9\nactive_file 10\npgfault 6\npgmajfault 7\n",
        );
        assert_eq!((v1.swap_usage, v2.swap_usage), (Some(8), None));
        let without_swap = MemoryStats {
            swap_usage: None,
            ..v1
        };
        assert_eq!(without_swap, v2);
        assert_eq!(from_v2(b"kernel_stack 1\nslab 2\n").kernel, 3);
    }
}
