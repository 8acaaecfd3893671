//! Allowed exceptions: lines `PATH: WORDS` of `exceptions.txt`, at most twenty.

use std::path::{Path, PathBuf};

/// An exception: a path, and words of the finding.
struct Exception {
    path: PathBuf,
    words: String,
    used: bool,
}

pub struct Exceptions(Vec<Exception>);

impl Exceptions {
    pub fn read() -> Self {
        let lines = include_str!("exceptions.txt").lines();
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let list: Vec<_> = lines
            .map(|line| {
                let (path, words) = line.split_once(": ").expect("PATH: WORDS");
                Exception {
                    path: path.into(),
                    words: words.to_owned(),
                    used: false,
                }
            })
            .collect();
        assert!(list.len() <= 20, "{} exceptions", list.len());
        Self(list)
    }

    /// Returns whether a mistake in a file is allowed.
    pub fn allow(&mut self, path: &Path, mistake: &str) -> bool {
        let mut list = self.0.iter_mut();
        let found = list.find(|it| it.path == path && mistake.contains(&it.words));
        found.map(|it| it.used = true).is_some()
    }

    /// Returns the unused exceptions for files with this extension.
    pub fn idle(&self, extension: &str) -> Vec<String> {
        let lines = self.0.iter().filter(|it| !it.used);
        let lines = lines.filter(|it| it.path.extension().is_some_and(|it| it == extension));
        lines
            .map(|it| format!("{}: {}", it.path.display(), it.words))
            .collect()
    }
}
