//! Limits of containers: those that the engine sets, and those that it does not support.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use orlop_cgroup::{Cgroup, CgroupPath, Hierarchies};
use orlop_cri_api::v1::LinuxContainerResources;
use orlop_fs::Membership;
use serde::{Deserialize, Serialize};

use crate::docker::types::Resources;
use crate::error::{Error, Result};
use crate::labels;

/// Converts CRI limits to the limits that the engine sets.
pub(crate) fn of(wanted: &LinuxContainerResources) -> Resources {
    let memory = wanted.memory_limit_in_bytes;
    Resources {
        cpu_shares: wanted.cpu_shares,
        cpu_quota: wanted.cpu_quota,
        cpu_period: wanted.cpu_period,
        cpuset_cpus: wanted.cpuset_cpus.clone(),
        cpuset_mems: wanted.cpuset_mems.clone(),
        memory,
        // Memory and swap together. If it is unset, the engine allows as much swap as memory.
        memory_swap: match wanted.memory_swap_limit_in_bytes {
            0 => memory,
            limit => limit,
        },
    }
}

/// Converts the engine's current limits for a container status.
pub(crate) fn in_force(now: &Resources, oom_score_adj: i64) -> LinuxContainerResources {
    LinuxContainerResources {
        cpu_period: now.cpu_period,
        cpu_quota: now.cpu_quota,
        cpu_shares: now.cpu_shares,
        memory_limit_in_bytes: now.memory,
        memory_swap_limit_in_bytes: now.memory_swap,
        cpuset_cpus: now.cpuset_cpus.clone(),
        cpuset_mems: now.cpuset_mems.clone(),
        oom_score_adj,
        ..Default::default()
    }
}

/// Limits that the engine does not support. They are set in the container's cgroup right after its start, and stored
/// in a label until then.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Extra {
    /// Bytes by page size (`2MB`). Zeros are omitted: the pod's own cgroup enforces them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    hugepages: BTreeMap<String, u64>,
    /// Values of cgroup v2 files.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    unified: BTreeMap<ControllerFile, String>,
}

/// The validated name of a cgroup controller's file (`memory.high`), without path separators.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
struct ControllerFile(String);

impl TryFrom<String> for ControllerFile {
    type Error = &'static str;

    fn try_from(file: String) -> std::result::Result<Self, Self::Error> {
        let known = file.split_once('.').is_some_and(|(controller, name)| {
            !controller.is_empty()
                && controller != "cgroup"
                && !name.is_empty()
                && file
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "._".contains(c))
        });
        if known {
            Ok(Self(file))
        } else {
            Err("is not the name of a cgroup controller file")
        }
    }
}

impl Extra {
    /// Extracts the limits that the engine cannot set.
    pub(crate) fn of(wanted: &LinuxContainerResources, is_v2: bool) -> Result<Self> {
        let hugepages = wanted
            .hugepage_limits
            .iter()
            .filter(|limit| limit.limit > 0)
            .map(|limit| (limit.page_size.clone(), limit.limit))
            .collect();
        let mut unified = BTreeMap::new();
        for (file, value) in &wanted.unified {
            let field = format!("linux.resources.unified[{file:?}]");
            if !is_v2 {
                return Err(Error::invalid(field, "this node does not use cgroup v2").into());
            }
            let file = ControllerFile::try_from(file.clone())
                .map_err(|problem| Error::invalid(field, problem))?;
            unified.insert(file, value.clone());
        }
        Ok(Self { hugepages, unified })
    }

    /// Reads the limits from a container's labels. Returns none if the labels are not ours, for example those of an
    /// image on a container that another client created.
    pub(crate) fn of_labels(labels: &BTreeMap<String, String>) -> Self {
        let kept = labels::own(labels, labels::EXTRA_LIMITS);
        kept.and_then(|text| serde_json::from_slice(text.as_bytes()).ok())
            .unwrap_or_default()
    }

    /// Returns the value of `memory.low`: memory protected from reclaim.
    pub(crate) fn memory_low(&self) -> u64 {
        let mut all = self.unified.iter();
        let low = all.find(|(file, _)| file.0 == "memory.low");
        low.and_then(|(_, text)| text.parse().ok()).unwrap_or(0)
    }

    /// Whether no limit is set.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Writes the limits to the cgroup. Blocks.
    pub(crate) fn apply(&self, cgroup: &Cgroup) -> Result<()> {
        for (size, limit) in &self.hugepages {
            if size.contains(['/', '.']) {
                let problem = format!("{size:?} is not a valid page size");
                return Err(Error::invalid("linux.resources.hugepage_limits", problem).into());
            }
            let Some(directory) = cgroup.directory("hugetlb") else {
                let problem =
                    "this node cannot limit huge pages because it has no hugetlb controller";
                return Err(Error::Precondition(problem.to_owned()).into());
            };
            let suffix = if cgroup.hierarchies().is_v2() {
                "max"
            } else {
                "limit_in_bytes"
            };
            write(
                &directory.join(format!("hugetlb.{size}.{suffix}")),
                &limit.to_string(),
            )?;
        }
        if let Some(directory) = cgroup.directory("") {
            for (ControllerFile(file), value) in &self.unified {
                write(&directory.join(file), value)?;
            }
        }
        Ok(())
    }
}

fn write(path: &Path, value: &str) -> Result<()> {
    let written = std::fs::OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| file.write_all(value.as_bytes()));
    Ok(written.map_err(Error::io(format!(
        "writing {value:?} to {}",
        path.display()
    )))?)
}

/// Returns the cgroup of a container, by its process.
pub(crate) fn cgroup_of(hierarchies: &Arc<Hierarchies>, pid: i32, id: &str) -> Option<Cgroup> {
    let membership = Membership::of(u32::try_from(pid).ok().filter(|pid| *pid > 0)?).ok()?;
    // The path in the only hierarchy (v2), or in that of the memory controller.
    let controller = if hierarchies.is_v2() { "" } else { "memory" };
    let path = membership.path(controller)?;
    let path = CgroupPath::parse(up_to(path, id)).ok()?;
    // In a cgroup namespace of our own, paths would be relative to another root.
    (!path.is_root()).then(|| Cgroup::new(Arc::clone(hierarchies), path))
}

/// Cuts a path after the container's cgroup, whose name contains its id. The process may be in a child cgroup: crun
/// creates one, and so does a service manager in the container with cgroup v2.
fn up_to<'a>(path: &'a str, id: &str) -> &'a str {
    let Some(at) = path.find(id) else { return path };
    let end = path[at..].find('/').map_or(path.len(), |end| at + end);
    &path[..end]
}

/// Returns the lowest oom_score_adj that can be set on this node; `None` if there is no such limit. A container with a
/// lower value would not start.
pub(crate) fn oom_floor() -> Option<i64> {
    const CAP_SYS_RESOURCE: u32 = 24;
    let status = orlop_fs::read_kernel_text("/proc/self/status").ok()?;
    let bounds = status
        .lines()
        .find_map(|line| line.strip_prefix("CapBnd:"))?;
    let bounds = u64::from_str_radix(bounds.trim(), 16).ok()?;
    if bounds & 1 << CAP_SYS_RESOURCE != 0 {
        return None;
    }
    let own = orlop_fs::read_kernel_text("/proc/self/oom_score_adj").ok()?;
    own.trim().parse().ok()
}

/// Returns the requested adjustment, or the lowest one that can be set.
pub(crate) fn oom_score_adj(asked: i64, floor: Option<i64>) -> Result<i64> {
    if !(-1000..=1000).contains(&asked) {
        let field = "linux.resources.oom_score_adj";
        return Err(Error::invalid(field, format!("{asked} is not between -1000 and 1000")).into());
    }
    match floor {
        Some(floor) if asked < floor => {
            tracing::warn!(
                asked,
                floor,
                "raised oom_score_adj to the lowest allowed value; lower values require CAP_SYS_RESOURCE"
            );
            Ok(floor)
        }
        _ => Ok(asked),
    }
}

#[cfg(test)]
mod tests {
    use orlop_cri_api::v1::HugepageLimit;

    use super::*;

    #[test]
    fn a_memory_limit_is_one_of_swap_too() {
        let wanted = LinuxContainerResources {
            memory_limit_in_bytes: 64 << 20,
            ..Default::default()
        };
        assert_eq!(of(&wanted).memory_swap, 64 << 20);
        let with_swap = LinuxContainerResources {
            memory_swap_limit_in_bytes: 96 << 20,
            ..wanted
        };
        assert_eq!(of(&with_swap).memory_swap, 96 << 20);
    }

    #[test]
    fn what_the_engine_does_not_know_is_kept_and_strange_files_are_refused() {
        let mut wanted = LinuxContainerResources {
            hugepage_limits: vec![
                HugepageLimit {
                    page_size: "2MB".into(),
                    limit: 4 << 20,
                },
                HugepageLimit {
                    page_size: "1GB".into(),
                    limit: 0,
                },
            ],
            ..Default::default()
        };
        assert_eq!(Extra::of(&wanted, false).unwrap().hugepages.len(), 1);
        wanted.unified = [("memory.high".to_owned(), "1".to_owned())].into();
        assert!(Extra::of(&wanted, false).is_err(), "no cgroup v2");
        let extra = Extra::of(&wanted, true).unwrap();
        let text = serde_json::to_string(&extra).unwrap();
        assert_eq!(serde_json::from_str::<Extra>(&text).unwrap(), extra);
        for file in ["../x", "cgroup.procs", "memory/../x", "memory.", "high"] {
            wanted.unified = [(file.to_owned(), "1".to_owned())].into();
            assert!(Extra::of(&wanted, true).is_err(), "{file}");
        }
    }

    #[test]
    fn a_label_names_no_file_but_one_of_a_controller() {
        let of = |file: &str, size: &str| {
            let text = serde_json::json!({ "unified": { file: "1" }, "hugepages": { size: 1 } });
            Extra::of_labels(&[(labels::EXTRA_LIMITS.to_owned(), text.to_string())].into())
        };
        assert_eq!(of("memory.low", "2MB").memory_low(), 1);
        for file in [
            "/proc/sys/kernel/core_pattern",
            "../memory.max",
            "..",
            ".",
            "",
        ] {
            assert!(of(file, "2MB").is_empty(), "{file}");
        }
    }

    #[test]
    fn what_a_container_makes_below_its_own_cgroup_is_passed_over() {
        let id = "0123abcd";
        for (path, own) in [
            ("/kubepods/pod1/0123abcd", "/kubepods/pod1/0123abcd"),
            ("/docker/0123abcd/init.scope", "/docker/0123abcd"),
            (
                "/kubepods.slice/kubepods-pod1.slice/docker-0123abcd.scope/container/x",
                "/kubepods.slice/kubepods-pod1.slice/docker-0123abcd.scope",
            ),
            ("/elsewhere/x", "/elsewhere/x"),
        ] {
            assert_eq!(up_to(path, id), own);
        }
    }

    #[test]
    fn what_the_engine_does_not_know_is_written_to_files_of_version_2() {
        let tree = tempfile::tempdir().unwrap();
        let own = tree.path().join("a.slice/docker-1.scope");
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(
            tree.path().join("cgroup.controllers"),
            "cpu memory hugetlb\n",
        )
        .unwrap();
        for file in ["memory.high", "hugetlb.2MB.max"] {
            std::fs::write(own.join(file), "").unwrap();
        }
        let mounts = format!(
            "1 2 0:3 / {} rw - cgroup2 cgroup2 rw\n",
            tree.path().display()
        );
        let hierarchies =
            Arc::new(Hierarchies::from_mounts(&orlop_fs::Mountinfo::from_text(mounts)).unwrap());
        assert!(hierarchies.is_v2());
        let path = CgroupPath::parse("/a.slice/docker-1.scope").unwrap();
        let cgroup = Cgroup::new(hierarchies, path);
        let wanted = LinuxContainerResources {
            hugepage_limits: vec![HugepageLimit {
                page_size: "2MB".into(),
                limit: 4 << 20,
            }],
            unified: [("memory.high".to_owned(), "1234".to_owned())].into(),
            ..Default::default()
        };
        Extra::of(&wanted, true).unwrap().apply(&cgroup).unwrap();
        let read = |file: &str| std::fs::read_to_string(own.join(file)).unwrap();
        assert_eq!(read("memory.high"), "1234");
        assert_eq!(read("hugetlb.2MB.max"), (4 << 20).to_string());
        // A missing file is not created.
        let wanted = LinuxContainerResources {
            unified: [("memory.none".to_owned(), "1".to_owned())].into(),
            ..Default::default()
        };
        let error = Extra::of(&wanted, true).unwrap().apply(&cgroup);
        assert!(error.unwrap_err().to_string().contains("memory.none"));
    }

    #[test]
    fn a_score_below_ones_own_is_raised_where_it_must_be() {
        assert_eq!(oom_score_adj(-998, None).unwrap(), -998);
        assert_eq!(oom_score_adj(-998, Some(0)).unwrap(), 0);
        assert_eq!(oom_score_adj(5, Some(0)).unwrap(), 5);
        assert!(oom_score_adj(1001, None).is_err());
    }
}
