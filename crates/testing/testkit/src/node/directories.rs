//! Directories and socket of a node.

use std::path::{Path, PathBuf};

use crate::scratch::Scratch;

pub(super) fn socket(scratch: &Scratch) -> PathBuf {
    scratch.run().join("orlop.sock")
}

/// Returns the root and state directories of any node.
pub(super) fn directories(scratch: &Scratch) -> (PathBuf, PathBuf) {
    let root = scratch.subdir("root");
    let state = scratch.run().join("s");
    make(&state);
    (root, state)
}

fn make(dir: &Path) {
    std::fs::create_dir_all(dir).unwrap_or_else(|e| panic!("creating {}: {e}", dir.display()));
}
