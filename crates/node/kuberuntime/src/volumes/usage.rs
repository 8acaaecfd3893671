//! Disk usage of a pod's volumes.

use orlop_kubelet_rules::pod::{Pod, Quantity};

use super::PodDirs;
use crate::measure::measure;

/// Maximum number of files to count, so that a pod cannot occupy the node with counting.
const MOST_FILES: usize = 1_000_000;

/// Whether the pod has an `emptyDir` on disk with a size limit.
pub(crate) fn has_limits(pod: &Pod) -> bool {
    limited(pod).next().is_some()
}

/// Returns a message about the first of those volumes that exceeds its limit. Blocks.
pub(crate) fn over_limit(dirs: &PodDirs, pod: &Pod) -> Option<String> {
    limited(pod).find_map(|(name, limit)| {
        let used = measure(&dirs.volume("empty-dir", name), MOST_FILES).bytes;
        let most = u64::try_from(limit.units()).unwrap_or(0);
        (used > most).then(|| {
            format!("Usage of EmptyDir volume {name:?} exceeds the limit \"{limit}\": it holds {used} bytes.")
        })
    })
}

/// Lists the limited volumes on disk; those in memory are limited by their tmpfs.
fn limited(pod: &Pod) -> impl Iterator<Item = (&str, Quantity)> {
    pod.spec.volumes.iter().filter_map(|volume| {
        let dir = volume
            .empty_dir
            .as_ref()
            .filter(|dir| dir.medium.is_empty())?;
        Some((volume.name.as_str(), dir.size_limit?))
    })
}
