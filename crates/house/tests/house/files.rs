//! The files of the workspace.

use std::fs;
use std::path::{Path, PathBuf};

/// The workspace.
pub fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of a file, by its path from the top.
pub fn read(path: &str) -> String {
    fs::read_to_string(top().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The Rust file of this name, or all of this directory.
pub fn sources(at: &Path) -> Vec<PathBuf> {
    if at.is_file() {
        return vec![at.to_owned()];
    }
    let entries = fs::read_dir(at).expect("a directory of sources");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let is_source = |path: &PathBuf| path.is_dir() || path.extension().is_some_and(|it| it == "rs");
    let paths = paths.filter(is_source);
    paths.flat_map(|path| sources(&path)).collect()
}
