use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::PodDirs;
use crate::pod::{Pod, Quantity};

/// How many files are counted at the most: a pod must not keep the node counting.
const MAX_FILES: usize = 1_000_000;

/// Whether the pod has directories on disk that may hold so much only.
pub(crate) fn has_limits(pod: &Pod) -> bool {
    limited(pod).next().is_some()
}

/// The first of those directories that holds more than it may, in a sentence. Blocks.
pub(crate) fn over_limit(dirs: &PodDirs, pod: &Pod) -> Option<String> {
    limited(pod).find_map(|(name, limit)| {
        let used = disk_usage(&dirs.volume("empty-dir", name));
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

/// What a directory takes on its own file system; links are not followed.
fn disk_usage(dir: &Path) -> u64 {
    let Ok(top) = fs::symlink_metadata(dir) else {
        return 0;
    };
    let mut total = 0;
    let mut counted = 0;
    let mut ahead: Vec<PathBuf> = vec![dir.to_owned()];
    while let Some(at) = ahead.pop() {
        for entry in fs::read_dir(at).into_iter().flatten().flatten() {
            counted += 1;
            let Ok(meta) = entry.metadata() else { continue };
            if counted > MAX_FILES || meta.dev() != top.dev() {
                continue;
            }
            // A file with several names counts in parts.
            total += meta.blocks() * 512 / meta.nlink().max(1);
            if meta.is_dir() {
                ahead.push(entry.path());
            }
        }
    }
    total
}
