//! The migration plan: the result for each line of a configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::Value;

/// Plan of a migration.
#[derive(Debug, Default)]
pub struct Plan {
    /// Each line of the other configuration, in the order of the files.
    pub notes: Vec<Note>,
    /// Files to create beside orlop's configuration: relative path and content.
    pub files: BTreeMap<String, String>,
    /// Directory of the other runtime's images.
    pub root: Option<PathBuf>,
    /// Directory with the state of running containers, if it is configured.
    pub state: Option<PathBuf>,
    /// Programs of OCI runtimes in the plan.
    pub programs: Vec<PathBuf>,
    pub(super) settings: BTreeMap<(String, String), Value>,
}

/// A line of the other configuration.
#[derive(Debug, Clone)]
pub struct Note {
    /// File of the line.
    pub file: PathBuf,
    /// Line number, from 1.
    pub line: usize,
    /// Key with its tables.
    pub key: String,
    /// Value, as in the file.
    pub value: String,
    /// Result of the migration.
    pub outcome: Outcome,
}

/// Result for a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It becomes this key.
    Taken(String),
    /// Nothing needs to be done, for this reason.
    Needless(String),
    /// There is no equivalent: the difference, and an alternative.
    Lost(String),
}

/// Information about the machine.
#[derive(Debug, Clone, Copy)]
pub struct Machine<'a> {
    /// Finds a program by name.
    pub find: fn(&str) -> Option<PathBuf>,
    /// Directory of orlop's configuration.
    pub target: &'a Path,
    /// Root of the filesystem.
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

    /// Returns the planned text of a key.
    pub fn text(&self, table: &str, key: &str) -> Option<String> {
        self.texts(table, key).into_iter().next()
    }

    /// Returns the planned texts of a list.
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
