//! Memory, swap, and what was killed for want of them.

use super::file::{StatFile, field, optional_field};
use crate::{Cgroup, Error};

/// Version 1 has no word for "no limit": it is the largest number of whole pages.
const UNLIMITED_V1: u64 = 1 << 62;

/// Memory of a cgroup, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// All that is charged, caches included.
    pub usage: u64,
    /// What would not go away under pressure: all but the inactive part of the file cache.
    pub working_set: u64,
    /// The limit of this very cgroup, if it has one.
    pub limit: Option<u64>,
    /// Anonymous memory.
    pub rss: u64,
    /// File cache.
    pub cache: u64,
    /// Mapped files.
    pub mapped_file: u64,
    /// Inactive part of the file cache.
    pub inactive_file: u64,
    /// Memory of the kernel on the cgroup's account.
    pub kernel: u64,
    /// Highest usage so far, where the kernel keeps it.
    pub peak: Option<u64>,
    /// Times the limit was hit.
    pub failures: u64,
    /// Page faults.
    pub page_faults: u64,
    /// Page faults that had to read from a device.
    pub major_page_faults: u64,
    /// Swap in use, where it is accounted for.
    pub swap_usage: Option<u64>,
    /// Limit of swap alone, if there is one.
    pub swap_limit: Option<u64>,
}

impl MemoryStats {
    /// What may still be used, if there is a limit.
    pub fn available(&self) -> Option<u64> {
        Some(self.limit?.saturating_sub(self.working_set))
    }
}

/// How often memory ran out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OomCounts {
    /// Times the limit was reached and nothing could be freed (version 2 only).
    pub oom: u64,
    /// Processes killed for it, in this cgroup and (version 2) below.
    pub kills: u64,
}

#[derive(Debug)]
pub(super) struct Reader {
    v2: bool,
    usage: Option<StatFile>,
    limit: Option<StatFile>,
    stat: Option<StatFile>,
    peak: Option<StatFile>,
    failures: Option<StatFile>,
    swap_usage: Option<StatFile>,
    swap_limit: Option<StatFile>,
    oom: Option<StatFile>,
}

impl Reader {
    pub(super) fn open(cgroup: &Cgroup) -> Result<Self, Error> {
        let v2 = cgroup.hierarchies().is_v2();
        let directory = cgroup.directory("memory");
        let open = |v1_name, v2_name| {
            StatFile::open(directory.as_deref(), if v2 { v2_name } else { v1_name })
        };
        Ok(Self {
            v2,
            usage: open("memory.usage_in_bytes", "memory.current")?,
            limit: open("memory.limit_in_bytes", "memory.max")?,
            stat: open("memory.stat", "memory.stat")?,
            peak: open("memory.max_usage_in_bytes", "memory.peak")?,
            failures: open("memory.failcnt", "memory.events")?,
            swap_usage: open("memory.memsw.usage_in_bytes", "memory.swap.current")?,
            swap_limit: open("memory.memsw.limit_in_bytes", "memory.swap.max")?,
            oom: open("memory.oom_control", "memory.events")?,
        })
    }

    pub(super) fn read(&self, buffer: &mut Vec<u8>) -> Result<Option<MemoryStats>, Error> {
        let (Some(usage), Some(stat)) = (&self.usage, &self.stat) else {
            return Ok(None);
        };
        let mut optional = |file: &Option<StatFile>| match file {
            Some(file) => file.number(buffer),
            None => Ok(None),
        };
        let limited = |value: Option<u64>| value.filter(|bytes| *bytes < UNLIMITED_V1);
        let limit = limited(optional(&self.limit)?);
        let peak = optional(&self.peak)?;
        let swap_usage = optional(&self.swap_usage)?;
        let swap_limit = limited(optional(&self.swap_limit)?);
        let usage = usage.number(buffer)?.unwrap_or_default();
        let failures = match &self.failures {
            Some(file) if self.v2 => field(file.text(buffer)?, "max"),
            Some(file) => file.number(buffer)?.unwrap_or_default(),
            None => 0,
        };
        let text = stat.text(buffer)?;
        let mut stats = if self.v2 {
            from_v2(text)
        } else {
            from_v1(text)
        };
        stats.usage = usage;
        stats.working_set = usage.saturating_sub(stats.inactive_file);
        stats.limit = limit;
        stats.peak = peak;
        stats.failures = failures;
        if self.v2 {
            stats.swap_usage = swap_usage;
            stats.swap_limit = swap_limit;
        } else {
            // Version 1 counts memory and swap together in these files.
            stats.swap_usage = swap_usage.map(|both| both.saturating_sub(usage));
            stats.swap_limit = swap_limit.map(|both| both.saturating_sub(limit.unwrap_or(both)));
        }
        Ok(Some(stats))
    }

    pub(super) fn oom(&self, buffer: &mut Vec<u8>) -> Result<Option<OomCounts>, Error> {
        let Some(file) = &self.oom else {
            return Ok(None);
        };
        let text = file.text(buffer)?;
        Ok(Some(OomCounts {
            oom: field(text, "oom"),
            kills: field(text, "oom_kill"),
        }))
    }
}

fn from_v2(text: &str) -> MemoryStats {
    MemoryStats {
        rss: field(text, "anon"),
        cache: field(text, "file"),
        mapped_file: field(text, "file_mapped"),
        inactive_file: field(text, "inactive_file"),
        kernel: optional_field(text, "kernel")
            .unwrap_or_else(|| field(text, "kernel_stack") + field(text, "slab")),
        page_faults: field(text, "pgfault"),
        major_page_faults: field(text, "pgmajfault"),
        ..MemoryStats::default()
    }
}

/// The fields with `total_` count what lies below too.
fn from_v1(text: &str) -> MemoryStats {
    MemoryStats {
        rss: field(text, "total_rss"),
        cache: field(text, "total_cache"),
        mapped_file: field(text, "total_mapped_file"),
        inactive_file: field(text, "total_inactive_file"),
        page_faults: field(text, "total_pgfault"),
        major_page_faults: field(text, "total_pgmajfault"),
        ..MemoryStats::default()
    }
}
