//! The cgroup files of pods, for cgroup v1 and v2.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use orlop_cgroup::{Cgroup, CgroupPath, Error, Hierarchies, StatsReader};

use super::CgroupError;
use super::limits::{Limits, PERIOD};

/// How long to wait for the last processes of a cgroup to exit before it is removed.
const LAST_MOMENT: Duration = Duration::from_millis(500);

/// The CPU and memory usage of a cgroup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CgroupUsage {
    /// CPU time in nanoseconds.
    pub cpu: Option<u64>,
    /// Memory in bytes, including the page cache.
    pub usage: Option<u64>,
    /// `usage` without inactive page cache.
    pub working_set: Option<u64>,
    /// Anonymous memory of processes, in bytes.
    pub rss: Option<u64>,
    /// Number of page faults.
    pub page_faults: Option<u64>,
    /// Number of major page faults, which read from disk.
    pub major_page_faults: Option<u64>,
}

/// The mount points of the kernel's cgroup hierarchies.
#[derive(Debug, Clone)]
pub(super) struct Layout(Arc<Hierarchies>);

impl Layout {
    pub(super) fn of_kernel() -> Result<Self, CgroupError> {
        Ok(Self(Arc::new(Hierarchies::detect()?)))
    }

    pub(super) fn is_unified(&self) -> bool {
        self.0.is_v2()
    }

    /// Creates a cgroup and sets its limits.
    pub(super) fn apply(&self, path: &str, limits: &Limits) -> Result<(), CgroupError> {
        let cgroup = self.cgroup(path)?;
        cgroup.create()?;
        let settings = if self.is_unified() {
            unified(limits)
        } else {
            split(limits)
        };
        for (controller, file, value) in settings {
            if let Some(dir) = cgroup.directory(controller) {
                write(&dir, file, &value)?;
            }
        }
        Ok(())
    }

    /// Reads the usage of a cgroup.
    pub(super) fn usage(&self, path: &str) -> CgroupUsage {
        let Ok(cgroup) = self.cgroup(path) else {
            return CgroupUsage::default();
        };
        let mut files = StatsReader::new(&cgroup);
        let cpu = files.cpu().ok().flatten();
        let memory = files.memory().ok().flatten();
        CgroupUsage {
            cpu: cpu.map(|cpu| cpu.usage_ns),
            usage: memory.map(|memory| memory.usage),
            working_set: memory.map(|memory| memory.working_set),
            rss: memory.map(|memory| memory.rss),
            page_faults: memory.map(|memory| memory.page_faults),
            major_page_faults: memory.map(|memory| memory.major_page_faults),
        }
    }

    /// Lists the names of a cgroup's direct children, in all hierarchies.
    pub(super) fn children(&self, path: &str) -> BTreeSet<String> {
        let cgroup = self.cgroup(path);
        cgroup.map_or_else(|_| BTreeSet::new(), |cgroup| cgroup.children())
    }

    /// Removes a cgroup and its descendants from each hierarchy. A cgroup that cannot be removed is
    /// an error.
    pub(super) fn remove(&self, path: &str) -> Result<(), CgroupError> {
        Ok(self.cgroup(path)?.remove(LAST_MOMENT)?)
    }

    fn cgroup(&self, path: &str) -> Result<Cgroup, Error> {
        let path = CgroupPath::parse(path)?;
        Ok(Cgroup::new(Arc::clone(&self.0), path))
    }
}

/// A controller, the name of its file, and the value to write.
type Setting = (&'static str, &'static str, String);

fn unified(limits: &Limits) -> Vec<Setting> {
    let quota = or_max(limits.cpu_quota);
    let mut settings = vec![
        ("cpu", "cpu.weight", limits.weight().to_string()),
        ("cpu", "cpu.max", format!("{quota} {PERIOD}")),
        ("memory", "memory.max", or_max(limits.memory)),
        ("pids", "pids.max", or_max(limits.pids)),
    ];
    if let Some(kept) = limits.protection {
        settings.push(("memory", "memory.min", kept.min.to_string()));
        settings.push(("memory", "memory.low", kept.low.to_string()));
    }
    settings
}

fn split(limits: &Limits) -> Vec<Setting> {
    let quota = limits.cpu_quota.unwrap_or(-1);
    let memory = limits.memory.unwrap_or(-1);
    let mut settings = vec![("cpu", "cpu.shares", limits.cpu_shares.to_string())];
    if quota > 0 {
        settings.push(("cpu", "cpu.cfs_period_us", PERIOD.to_string()));
    }
    settings.push(("cpu", "cpu.cfs_quota_us", quota.to_string()));
    settings.push(("memory", "memory.limit_in_bytes", memory.to_string()));
    settings.push(("pids", "pids.max", or_max(limits.pids)));
    settings
}

fn or_max<N: ToString>(limit: Option<N>) -> String {
    limit.map_or_else(|| "max".to_owned(), |limit| limit.to_string())
}

fn write(dir: &Path, file: &str, value: &str) -> Result<(), CgroupError> {
    let path = dir.join(file);
    match fs::write(&path, value) {
        // If the node does not have this controller, nothing is limited.
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(CgroupError::Limit {
            path: path.display().to_string(),
            value: value.to_owned(),
            source,
        }),
        Ok(()) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use orlop_fs::Mountinfo;

    use super::*;

    /// Makes plain directories act as hierarchies with these controllers.
    fn layout(dir: &Path, hierarchies: &[(&str, &str)]) -> Layout {
        let mut table = Vec::new();
        for (name, controllers) in hierarchies {
            let point = dir.join(name);
            fs::create_dir(&point).unwrap();
            let point = point.display();
            table.push(format!(
                "30 20 0:30 / {point} rw - cgroup cgroup rw,{controllers}\n"
            ));
        }
        let table = Mountinfo::from_text(table.concat());
        Layout(Arc::new(Hierarchies::from_mounts(&table).unwrap()))
    }

    #[test]
    fn a_split_hierarchy_is_limited_and_taken_down() {
        let dir = tempfile::tempdir().unwrap();
        let layout = layout(dir.path(), &[("cpu", "cpu,cpuacct"), ("memory", "memory")]);
        let limits = Limits {
            cpu_shares: 512,
            cpu_quota: Some(50_000),
            memory: Some(1 << 20),
            pids: None,
            protection: None,
        };
        layout.apply("/kubepods/pod1", &limits).unwrap();
        let read = |path: &str| fs::read_to_string(dir.path().join(path)).unwrap();
        assert_eq!(read("cpu/kubepods/pod1/cpu.shares"), "512");
        assert_eq!(read("cpu/kubepods/pod1/cpu.cfs_quota_us"), "50000");
        assert_eq!(
            read("memory/kubepods/pod1/memory.limit_in_bytes"),
            "1048576"
        );
        assert_eq!(limits.weight(), 59);
        assert_eq!(layout.children("/kubepods"), ["pod1".to_owned()].into());

        let write = |path: &str, text: &str| fs::write(dir.path().join(path), text).unwrap();
        write("cpu/kubepods/cpuacct.usage", "5000\n");
        write("cpu/kubepods/cpuacct.stat", "user 0\nsystem 0\n");
        write("memory/kubepods/memory.usage_in_bytes", "100\n");
        write(
            "memory/kubepods/memory.stat",
            "inactive_file 1\ntotal_inactive_file 30\ntotal_rss 60\ntotal_pgfault 7\n\
             total_pgmajfault 1\n",
        );
        let found = layout.usage("/kubepods");
        assert_eq!(found.cpu, Some(5000));
        assert_eq!((found.usage, found.working_set), (Some(100), Some(70)));
        assert_eq!((found.rss, found.page_faults), (Some(60), Some(7)));
        assert_eq!(layout.usage("/nobody"), CgroupUsage::default());
    }

    #[test]
    fn cgroups_that_a_container_nested_without_end_are_removed() {
        // Plain directories are enough: the test is about depth.
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let layout = layout(dir.path(), &[("memory", "memory")]);
        let pod = dir.path().join("memory/kubepods/pod1");
        fs::create_dir_all(&pod).unwrap();
        orlop_testkit::nest(&pod, 60_000);
        let removed = std::thread::Builder::new()
            .stack_size(128 << 10)
            .spawn(move || layout.remove("/kubepods/pod1"));
        removed.unwrap().join().unwrap().unwrap();
        assert!(!pod.exists());
    }
}
