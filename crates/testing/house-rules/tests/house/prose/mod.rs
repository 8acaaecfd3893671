//! Style checks of all text for users: documents, help texts, error messages and log lines.
//!
//! The rules are in CONTRIBUTING.md; [`patterns`] finds the common mistakes. `exceptions.txt` lists the exceptions.
//! Help texts and comments of configuration keys are checked in the references generated from them (`docs/reference`).

mod exceptions;
mod markdown;
mod patterns;
mod strings;

use std::fs;
use std::path::{Path, PathBuf};

use crate::cargo::Graph;
use crate::files::{documents, sources, top};
use exceptions::Exceptions;
use markdown::Passage;
use patterns::mistakes;

#[test]
fn documents_are_in_plain_english() {
    let passages = |path: &Path, text: &str| {
        if path.ends_with("help.md") {
            markdown::help_texts(text)
        } else {
            markdown::passages(text)
        }
    };
    assert_plain(documents(), passages, 2000, "md");
}

#[test]
fn messages_are_in_plain_english() {
    assert_plain(
        shipped_sources(),
        |_, text| strings::literals(text),
        4500,
        "rs",
    );
}

/// Asserts that the files have more than `least` passages and no mistakes except those in `exceptions.txt` for this
/// extension, and that each exception is still needed.
fn assert_plain(
    files: Vec<PathBuf>,
    passages: impl Fn(&Path, &str) -> Vec<Passage>,
    least: usize,
    extension: &str,
) {
    let mut exceptions = Exceptions::read();
    let mut found = Vec::new();
    let mut count = 0;
    for path in files {
        let text = fs::read_to_string(top().join(&path)).unwrap();
        for passage in passages(&path, &text) {
            count += 1;
            for mistake in mistakes(&passage.text) {
                if !exceptions.allow(&path, &mistake) {
                    found.push(format!("{}:{}: {mistake}", path.display(), passage.line));
                }
            }
        }
    }
    assert!(count > least, "only {count} passages");
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert_eq!(exceptions.idle(extension), Vec::<String>::new());
}

/// Returns the source files of programs, without tests.
fn shipped_sources() -> Vec<PathBuf> {
    let graph = Graph::read(&[]);
    let directories = graph.house().map(|package| package.directory().join("src"));
    let tests = top().join("crates/testing");
    let shipped = directories.filter(|path| !path.starts_with(&tests));
    let files = shipped.flat_map(|path| sources(&path));
    let relative = files.map(|path| path.strip_prefix(top()).unwrap().to_owned());
    relative.filter(|path| !is_for_tests(path)).collect()
}

fn is_for_tests(path: &Path) -> bool {
    path.iter().any(|part| {
        let part = part.to_str().unwrap_or_default();
        part == "tests" || part == "tests.rs" || part.ends_with("_tests.rs") || part == "fuzzed.rs"
    })
}
