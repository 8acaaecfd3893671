//! The files of the workspace.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the root of the workspace.
pub fn top() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(3)
        .expect("crates/testing/house-rules")
        .to_owned()
}

/// Returns the text of a file, by its path from the root.
pub fn read(path: &str) -> String {
    fs::read_to_string(top().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the Rust file of this name, or all in this directory.
pub fn sources(at: &Path) -> Vec<PathBuf> {
    if at.is_file() {
        return vec![at.to_owned()];
    }
    with_extension(files_below(at), "rs").collect()
}

/// Returns all files in a directory, recursively.
pub fn files_below(at: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(at).expect("a directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                files_below(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

/// Returns the documents for users and contributors, as paths from the root.
pub fn documents() -> Vec<PathBuf> {
    let root = fs::read_dir(top()).expect("the workspace");
    let root = root.map(|entry| entry.expect("an entry").path());
    let all = root
        .filter(|path| path.is_file())
        .chain(files_below(&top().join("docs")));
    let mut documents: Vec<_> = with_extension(all, "md")
        .map(|path| path.strip_prefix(top()).expect("below the top").to_owned())
        .collect();
    documents.sort();
    documents
}

fn with_extension(
    files: impl IntoIterator<Item = PathBuf>,
    extension: &str,
) -> impl Iterator<Item = PathBuf> {
    let files = files.into_iter();
    files.filter(move |path| path.extension().is_some_and(|it| it == extension))
}
