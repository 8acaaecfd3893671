//! How much is left of what can run out.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::thresholds::{Observation, Signal};
use crate::capacity::meminfo;
use crate::tasks;

/// What is looked at.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// Where pods' volumes and logs are.
    pub(crate) nodefs: PathBuf,
    /// Where images are, if the runtime says so.
    pub(crate) imagefs: Option<PathBuf>,
}

/// Looks at the node. What cannot be seen is left out. Reads files.
pub(crate) fn observe(places: &Places) -> BTreeMap<Signal, Observation> {
    let mut seen = BTreeMap::new();
    let memory = meminfo();
    let field = |name: &str| memory.get(name).copied();
    if let (Some(total), Some(free)) = (field("MemTotal"), field("MemFree")) {
        // As the kubelet has it: all but the working set, which does not count cache at rest.
        let available = free + field("Inactive(file)").unwrap_or_default();
        let observation = Observation {
            available: available.min(total),
            capacity: total,
        };
        seen.insert(Signal::Memory, observation);
    }
    let mut disk = |path: &PathBuf, space: Signal, inodes: Signal| {
        let Ok(found) = rustix::fs::statvfs(path) else {
            return;
        };
        let bytes = Observation {
            available: found.f_bavail.saturating_mul(found.f_frsize),
            capacity: found.f_blocks.saturating_mul(found.f_frsize),
        };
        let files = Observation {
            available: found.f_favail,
            capacity: found.f_files,
        };
        seen.insert(space, bytes);
        seen.insert(inodes, files);
    };
    disk(&places.nodefs, Signal::NodeFs, Signal::NodeFsInodes);
    if let Some(path) = &places.imagefs {
        disk(path, Signal::ImageFs, Signal::ImageFsInodes);
    }
    if let Some(pids) = pids() {
        seen.insert(Signal::Pids, pids);
    }
    seen
}

/// Processes and threads that there may still be.
fn pids() -> Option<Observation> {
    let (most, tasks) = (tasks::most()?, tasks::count()?);
    Some(Observation {
        available: most.saturating_sub(tasks),
        capacity: most,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_something_of_everything() {
        let places = Places {
            nodefs: "/".into(),
            imagefs: Some("/".into()),
        };
        let seen = observe(&places);
        for signal in [
            Signal::Memory,
            Signal::NodeFs,
            Signal::ImageFs,
            Signal::Pids,
        ] {
            let found = seen[&signal];
            assert!(
                found.capacity > 0 && found.available <= found.capacity,
                "{signal:?}"
            );
        }
    }
}
