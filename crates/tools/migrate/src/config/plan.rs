//! The migration plan: the result for each line of a configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::Value;

/// What becomes of their configuration.
#[derive(Debug, Default)]
pub struct Plan {
    /// Each line of theirs, in the order of their files.
    pub notes: Vec<Note>,
    /// Files that go beside orlop's configuration: a path below its directory, and what is in it.
    pub files: BTreeMap<String, String>,
    /// Where they keep their images.
    pub root: Option<PathBuf>,
    /// Where they keep what they know of running containers, if their configuration says so.
    pub state: Option<PathBuf>,
    /// Programs of runtimes that the plan names.
    pub programs: Vec<PathBuf>,
    pub(super) settings: BTreeMap<(String, String), Value>,
}

/// A line of theirs.
#[derive(Debug, Clone)]
pub struct Note {
    /// Its file.
    pub file: PathBuf,
    /// Its number, from 1.
    pub line: usize,
    /// The key, with its tables.
    pub key: String,
    /// The value, as they have it.
    pub value: String,
    /// What becomes of it.
    pub outcome: Outcome,
}

/// What becomes of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is taken over, as this key.
    Taken(String),
    /// Nothing has to be done, for this reason.
    Needless(String),
    /// There is no counterpart: what differs, and the way out.
    Lost(String),
}

/// What a reader needs to know of the machine.
#[derive(Debug, Clone, Copy)]
pub struct Machine<'a> {
    /// Where the program of a name is.
    pub find: fn(&str) -> Option<PathBuf>,
    /// The directory of orlop's configuration.
    pub target: &'a Path,
    /// The root of the file system.
    pub root: &'a Path,
}

impl Plan {
    pub(super) fn set(&mut self, table: &str, key: &str, value: Value) -> Outcome {
        let named = if table.is_empty() {
            key.to_owned()
        } else {
            format!("{table}.{key}")
        };
        self.settings
            .insert((table.to_owned(), key.to_owned()), value);
        Outcome::Taken(named)
    }

    /// The text that a key of orlop's is to have.
    pub fn text(&self, table: &str, key: &str) -> Option<String> {
        self.texts(table, key).into_iter().next()
    }

    /// The texts of a list.
    pub fn texts(&self, table: &str, key: &str) -> Vec<String> {
        let value = self.settings.get(&(table.to_owned(), key.to_owned()));
        let list = match value {
            Some(Value::Array(list)) => list.as_slice(),
            Some(one) => std::slice::from_ref(one),
            None => &[],
        };
        let texts = list.iter().filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    }

    pub(super) fn is_set(&self, table: &str, key: &str) -> bool {
        self.settings
            .contains_key(&(table.to_owned(), key.to_owned()))
    }
}
