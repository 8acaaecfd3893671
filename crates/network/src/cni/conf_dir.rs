//! A directory of network configurations.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::conf::NetworkConf;
use super::read_bounded::read_bounded;

/// A configuration directory, with the last valid contents of each of its files.
#[derive(Debug)]
pub struct ConfDir {
    path: PathBuf,
    last_good: BTreeMap<PathBuf, NetworkConf>,
}

/// The result of reading a configuration directory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Loaded {
    /// The networks, in the order of their files' names.
    pub networks: Vec<NetworkConf>,
    /// Problems, each with the file (or the directory) that has it.
    pub problems: Vec<String>,
}

impl ConfDir {
    /// Creates a handle without reading the directory.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            last_good: BTreeMap::new(),
        }
    }

    /// Returns the directory's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the directory again. A file that became unreadable or broken keeps its last valid contents; a removed
    /// file is dropped.
    pub fn load(&mut self) -> Loaded {
        let mut loaded = Loaded::default();
        let files = match configuration_files(&self.path) {
            Ok(files) => files,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                loaded
                    .problems
                    .push(format!("cannot read {}: {error}", self.path.display()));
                loaded.networks = self.last_good.values().cloned().collect();
                return loaded;
            }
        };
        let mut good = BTreeMap::new();
        for file in files {
            match self.load_file(&file) {
                Ok(conf) => {
                    good.insert(file, conf);
                }
                Err(problem) => {
                    let kept = self.last_good.remove(&file);
                    let note = if kept.is_some() {
                        " (its last good version stays in use)"
                    } else {
                        ""
                    };
                    loaded
                        .problems
                        .push(format!("{}: {problem}{note}", file.display()));
                    if let Some(conf) = kept {
                        good.insert(file, conf);
                    }
                }
            }
        }
        loaded.networks = good
            .values()
            .filter(|conf| !conf.is_loopback())
            .cloned()
            .collect();
        self.last_good = good;
        loaded
    }

    fn load_file(&self, file: &Path) -> Result<NetworkConf, String> {
        let bytes = read_bounded(file).map_err(|error| error.to_string())?;
        NetworkConf::from_bytes(&bytes, Some(&self.path))
            .map_err(|error| orlop_text::with_causes(&error))
    }
}

/// Lists the files that describe networks, by name. The file extensions are those that other runtimes accept.
fn configuration_files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let wanted = path
            .extension()
            .is_some_and(|e| e == "conf" || e == "conflist" || e == "json");
        if wanted && !path.is_dir() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(loaded: &Loaded) -> Vec<&str> {
        loaded
            .networks
            .iter()
            .map(|conf| conf.name.as_str())
            .collect()
    }

    #[test]
    fn the_last_good_version_of_a_broken_file_stays() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        let mut conf_dir = ConfDir::new(dir.path());
        assert_eq!(conf_dir.load(), Loaded::default());

        write("20-b.conf", r#"{"name":"b","type":"bridge"}"#);
        write(
            "10-a.conflist",
            r#"{"name":"a","plugins":[{"type":"ptp"}]}"#,
        );
        write("00-lo.conf", r#"{"name":"lo","type":"loopback"}"#);
        write("99-ignored.txt", "garbage");
        let loaded = conf_dir.load();
        assert_eq!(names(&loaded), ["a", "b"]);
        assert!(loaded.problems.is_empty());

        write("10-a.conflist", "{");
        write("05-new.conf", "}");
        let loaded = conf_dir.load();
        assert_eq!(names(&loaded), ["a", "b"]);
        assert_eq!(loaded.problems.len(), 2);
        assert!(
            loaded.problems[1].contains("10-a.conflist"),
            "{:?}",
            loaded.problems
        );
        assert!(
            loaded.problems[1].contains("last good version"),
            "{:?}",
            loaded.problems
        );

        std::fs::remove_file(dir.path().join("10-a.conflist")).unwrap();
        assert_eq!(names(&conf_dir.load()), ["b"]);
    }
}
