//! How much the volumes of a pod hold.

use orlop_kubelet_rules::pod::{Pod, Quantity};

use super::PodDirs;
use crate::measure::measure;

/// How many files are counted at the most: a pod must not keep the node counting.
const MOST_FILES: usize = 1_000_000;

/// Whether the pod has directories on disk that may hold so much only.
pub(crate) fn has_limits(pod: &Pod) -> bool {
    limited(pod).next().is_some()
}

/// The first of those directories that holds more than it may, in a sentence. Blocks.
pub(crate) fn over_limit(dirs: &PodDirs, pod: &Pod) -> Option<String> {
    limited(pod).find_map(|(name, limit)| {
        let used = measure(&dirs.volume("empty-dir", name), MOST_FILES).bytes;
        let most = u64::try_from(limit.units()).unwrap_or(0);
        (used > most).then(|| {
            format!("Usage of EmptyDir volume {name:?} exceeds the limit \"{limit}\": it holds {used} bytes.")
        })
    })
}

/// Those in memory are held by their own file system.
fn limited(pod: &Pod) -> impl Iterator<Item = (&str, Quantity)> {
    pod.spec.volumes.iter().filter_map(|volume| {
        let dir = volume
            .empty_dir
            .as_ref()
            .filter(|dir| dir.medium.is_empty())?;
        Some((volume.name.as_str(), dir.size_limit?))
    })
}
