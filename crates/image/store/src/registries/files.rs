//! The `registries.conf` of a node and its `.d` directory, which are read again after a change.

use std::fmt;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use super::document::Document;
use super::merged::Registries;
use crate::{Error, Result};

/// Maximum size of a file.
const LARGEST: u64 = 1 << 20;
/// Maximum size of all files together.
const MOST_BYTES: u64 = 4 << 20;
/// Maximum number of files in the directory.
const MOST_FILES: usize = 256;
/// A file that changed within this time may change again without a new timestamp.
const SETTLED: Duration = Duration::from_secs(2);

/// Location of a `registries.conf`, if there is one. Clones share the cache.
#[derive(Clone, Default)]
pub struct RegistriesFile {
    path: Option<PathBuf>,
    read: Arc<Mutex<Option<Reading>>>,
}

/// The cached content, and the files it was read from.
struct Reading {
    stamps: Vec<Stamp>,
    registries: Arc<Registries>,
}

/// Metadata that identifies a version of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    path: PathBuf,
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl RegistriesFile {
    /// Uses the file at `path`, and the files in the directory with the same name and the suffix `.d`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self {
            path: Some(path.into()),
            read: Arc::default(),
        }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Reads all files, and returns the numbers of registries and aliases. Blocks on small files.
    pub fn check(&self) -> Result<(usize, usize)> {
        Ok(self.read()?.counts())
    }

    /// Returns the current content of the files. Blocks on small files.
    pub(crate) fn read(&self) -> Result<Arc<Registries>> {
        let Some(path) = &self.path else {
            return Ok(Arc::default());
        };
        let paths = paths(path)?;
        let stamps = paths.iter().map(|path| stamp(path));
        let stamps: Vec<Stamp> = stamps.collect::<Result<_>>()?;
        if let Some(reading) = &*self.read.lock()
            && reading.stamps == stamps
        {
            return Ok(Arc::clone(&reading.registries));
        }
        let mut registries = Registries::default();
        let mut left = MOST_BYTES;
        for path in &paths {
            let read = orlop_fs::read_text(path, LARGEST.min(left));
            let text = read.map_err(|error| wrong(path, &error))?;
            left -= text.len() as u64;
            registries.adopt(Document::parse(path, &text)?);
        }
        let registries = Arc::new(registries);
        if stamps.iter().all(Stamp::is_settled) {
            *self.read.lock() = Some(Reading {
                stamps,
                registries: Arc::clone(&registries),
            });
        }
        Ok(registries)
    }
}

impl fmt::Debug for RegistriesFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RegistriesFile").field(&self.path).finish()
    }
}

impl Stamp {
    fn is_settled(&self) -> bool {
        let (seconds, nanoseconds) = self.modified.max(self.changed);
        let seconds = Duration::from_secs(seconds.try_into().unwrap_or(0));
        let at = UNIX_EPOCH + seconds + Duration::from_nanos(nanoseconds.unsigned_abs());
        let age = SystemTime::now().duration_since(at);
        age.is_ok_and(|age| age > SETTLED)
    }
}

/// Returns the file, then the files of its directory, sorted by name.
fn paths(path: &Path) -> Result<Vec<PathBuf>> {
    let mut name = path.as_os_str().to_owned();
    name.push(".d");
    let dir = PathBuf::from(name);
    let mut more = Vec::new();
    match std::fs::read_dir(&dir) {
        Ok(entries) => {
            for entry in entries {
                let entry = entry.map_err(|error| wrong(&dir, &error))?.path();
                if entry
                    .extension()
                    .is_some_and(|extension| extension == "conf")
                {
                    more.push(entry);
                }
                if more.len() > MOST_FILES {
                    let reason = format!("it has more than {MOST_FILES} files");
                    return Err(Error::Configuration {
                        path: dir.display().to_string(),
                        reason,
                    });
                }
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(wrong(&dir, &error)),
    }
    more.sort();
    more.insert(0, path.to_owned());
    Ok(more)
}

fn stamp(path: &Path) -> Result<Stamp> {
    let found = std::fs::metadata(path).map_err(|error| wrong(path, &error))?;
    Ok(Stamp {
        path: path.to_owned(),
        device: found.dev(),
        inode: found.ino(),
        size: found.size(),
        modified: (found.mtime(), found.mtime_nsec()),
        changed: (found.ctime(), found.ctime_nsec()),
    })
}

fn wrong(path: &Path, error: &std::io::Error) -> Error {
    let hint = match error.kind() {
        // A missing file is an error, because the registries that it blocks would not be blocked.
        ErrorKind::NotFound => "; create the file or remove images.registries_conf",
        _ => "",
    };
    Error::Configuration {
        path: path.display().to_string(),
        reason: format!("{error}{hint}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reference;

    fn first(file: &RegistriesFile, name: &str) -> Result<String> {
        let candidates = file.read()?.candidates(name)?;
        Ok(candidates.names[0].to_string())
    }

    fn write(path: &Path, host: &str) {
        let text = format!("unqualified-search-registries = [\"{host}\"]");
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn files_are_read_once_until_one_changes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("registries.conf");
        let file = RegistriesFile::at(&path);
        let missing = file.read().unwrap_err().to_string();
        assert!(missing.contains("images.registries_conf"), "{missing}");
        write(&path, "a.example");
        assert_eq!(first(&file, "x").unwrap(), "a.example/x:latest");
        // The same size, perhaps within the same clock tick.
        write(&path, "b.example");
        assert_eq!(first(&file, "x").unwrap(), "b.example/x:latest");
        std::thread::sleep(SETTLED + Duration::from_millis(100));
        let one = file.read().unwrap();
        assert!(
            Arc::ptr_eq(&one, &file.clone().read().unwrap()),
            "it was read again though nothing changed"
        );
        write(&path, "c.example");
        assert_eq!(first(&file, "x").unwrap(), "c.example/x:latest");
        let more = dir.path().join("registries.conf.d");
        std::fs::create_dir(&more).unwrap();
        write(&more.join("9.conf"), "e.example");
        write(&more.join("10.conf"), "d.example");
        write(&more.join("99.conf.old"), "f.example");
        assert_eq!(first(&file, "x").unwrap(), "e.example/x:latest");
    }

    #[test]
    fn files_without_end_and_directories_without_end_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("registries.conf");
        let file = RegistriesFile::at(&path);
        let endless = std::fs::File::create(&path).unwrap();
        endless.set_len(LARGEST + 1).unwrap();
        let error = file.read().unwrap_err().to_string();
        assert!(error.contains("1048576 bytes"), "{error}");
        write(&path, "a.example");
        let more = dir.path().join("registries.conf.d");
        std::fs::create_dir(&more).unwrap();
        for number in 0..4 {
            let text = " ".repeat(1 << 20);
            std::fs::write(more.join(format!("{number}.conf")), text).unwrap();
        }
        let error = file.read().unwrap_err().to_string();
        assert!(
            error.contains("3.conf") && error.contains("larger"),
            "{error}"
        );
        for number in 0..=MOST_FILES {
            std::fs::write(more.join(format!("{number}.conf")), "").unwrap();
        }
        let error = file.read().unwrap_err().to_string();
        assert!(error.contains("registries.conf.d"), "{error}");
        assert!(error.contains("256 files"), "{error}");
    }

    #[test]
    fn a_file_as_long_as_may_be_is_read_in_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("registries.conf");
        let entry = |number: usize| {
            format!(
                "[[registry]]
prefix = \"r{number}.example/team\"
location = \"a.example/{number}\"
\
                 [[registry.mirror]]
location = \"m{number}.example\"
"
            )
        };
        let text: String = (0..8000).map(entry).collect();
        std::fs::write(&path, text).unwrap();
        let begin = std::time::Instant::now();
        let (registries, _) = RegistriesFile::at(&path).check().unwrap();
        assert_eq!(registries, 8000);
        // Counting lines from the start for each word would take minutes.
        assert!(begin.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn without_a_file_short_names_are_docker_hub_s() {
        let file = RegistriesFile::default();
        let hub: Reference = "busybox".parse().unwrap();
        assert_eq!(first(&file, "busybox").unwrap(), hub.to_string());
    }
}
