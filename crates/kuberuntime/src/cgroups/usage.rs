//! What a cgroup uses.

use std::path::Path;

/// What is used in a cgroup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CgroupUsage {
    /// Nanoseconds of processors.
    pub cpu: Option<u64>,
    /// Bytes of memory with what the kernel keeps of files.
    pub usage: Option<u64>,
    /// Less what of that has not been used of late.
    pub working_set: Option<u64>,
    /// Memory of processes alone.
    pub rss: Option<u64>,
    /// Pages that were not mapped when they were needed.
    pub page_faults: Option<u64>,
    /// Those that had to be read.
    pub major_page_faults: Option<u64>,
}

/// Of the unified hierarchy.
pub(super) fn unified(dir: &Path) -> CgroupUsage {
    let cpu = read(dir, "cpu.stat");
    let memory = read(dir, "memory.stat");
    let usage = number(&read(dir, "memory.current"));
    CgroupUsage {
        cpu: field(&cpu, "usage_usec").map(|micros| micros.saturating_mul(1000)),
        usage,
        working_set: less(usage, field(&memory, "inactive_file")),
        rss: field(&memory, "anon"),
        page_faults: field(&memory, "pgfault"),
        major_page_faults: field(&memory, "pgmajfault"),
    }
}

/// Of the directories of a split hierarchy for processors and for memory.
pub(super) fn split(cpu: Option<&Path>, memory: Option<&Path>) -> CgroupUsage {
    let stat = memory.map_or_else(String::new, |dir| read(dir, "memory.stat"));
    let usage = memory.and_then(|dir| number(&read(dir, "memory.usage_in_bytes")));
    CgroupUsage {
        cpu: cpu.and_then(|dir| number(&read(dir, "cpuacct.usage"))),
        usage,
        working_set: less(usage, field(&stat, "total_inactive_file")),
        rss: field(&stat, "total_rss"),
        page_faults: field(&stat, "total_pgfault"),
        major_page_faults: field(&stat, "total_pgmajfault"),
    }
}

fn less(usage: Option<u64>, idle: Option<u64>) -> Option<u64> {
    usage.map(|usage| usage.saturating_sub(idle.unwrap_or(0)))
}

fn read(dir: &Path, file: &str) -> String {
    orlop_disk::read_kernel_text(dir.join(file)).unwrap_or_default()
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(' ')?;
        (key == name).then(|| number(value))?
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn both_kinds_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        assert_eq!(unified(dir.path()), CgroupUsage::default());
        write("cpu.stat", "usage_usec 5\nuser_usec 4\n");
        write("memory.current", "100\n");
        write(
            "memory.stat",
            "anon 60\nfile 40\ninactive_file 30\npgfault 7\npgmajfault 1\n",
        );
        let expected = CgroupUsage {
            cpu: Some(5000),
            usage: Some(100),
            working_set: Some(70),
            rss: Some(60),
            page_faults: Some(7),
            major_page_faults: Some(1),
        };
        assert_eq!(unified(dir.path()), expected);
        write("cpuacct.usage", "5000\n");
        write("memory.usage_in_bytes", "100\n");
        write(
            "memory.stat",
            "inactive_file 1\ntotal_inactive_file 30\ntotal_rss 60\ntotal_pgfault 7\ntotal_pgmajfault 1\n",
        );
        assert_eq!(split(Some(dir.path()), Some(dir.path())), expected);
        assert_eq!(split(None, None), CgroupUsage::default());
    }
}
