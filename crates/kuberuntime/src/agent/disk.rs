//! How much of a disk a directory takes.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A directory with more entries than this is only counted in part.
const MOST_ENTRIES: usize = 200_000;

/// Bytes, or inodes, beneath `root`, on its own file system. Links are not followed.
pub(super) fn usage(root: &Path, inodes: bool) -> u64 {
    let Ok(top) = fs::symlink_metadata(root) else {
        return 0;
    };
    let mut waiting: Vec<PathBuf> = vec![root.to_owned()];
    let mut seen = 0;
    let mut sum = 0;
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            seen += 1;
            if seen > MOST_ENTRIES {
                return sum;
            }
            if metadata.dev() != top.dev() {
                continue;
            }
            sum += if inodes { 1 } else { metadata.blocks() * 512 };
            if metadata.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_beneath_counts() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("a")).unwrap();
        fs::write(directory.path().join("a/b"), vec![1; 100_000]).unwrap();
        std::os::unix::fs::symlink("/", directory.path().join("a/link")).unwrap();
        assert_eq!(usage(directory.path(), true), 3);
        assert!((100_000..400_000).contains(&usage(directory.path(), false)));
        assert_eq!(usage(&directory.path().join("none"), false), 0);
    }
}
