//! Creating and removing the daemon's directories.

use std::path::Path;

use crate::error::{Error, Result};

/// Makes the directories of an object and then its record. If that fails, the directories are removed
/// again, because no record refers to them yet.
pub fn recorded_in<T>(directories: &[&Path], record: impl FnOnce() -> Result<T>) -> Result<T> {
    let made = directories
        .iter()
        .try_for_each(|directory| make_private_dir(directory))
        .and_then(|()| record());
    if made.is_err() {
        for directory in directories {
            // An empty directory can be removed even if no file descriptor is left, which may be why it failed.
            if std::fs::remove_dir(directory).is_ok() {
                continue;
            }
            if let Err(error) = remove_tree(directory) {
                tracing::warn!(
                    %error,
                    "cannot remove a directory whose record was not written; the next start \
                     removes it"
                );
            }
        }
    }
    made
}

/// Makes a directory that only the daemon may list and change. Others may traverse it if they know a name
/// in it, as root of a pod with a user namespace must.
pub fn make_private_dir(path: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .mode(0o711)
        .recursive(true)
        .create(path)
        .map_err(Error::io(format!(
            "creating the directory {}",
            path.display()
        )))
        .map_err(Into::into)
}

/// Returns the names in a directory; none if it does not exist.
pub fn names_in(dir: &Path) -> Result<Vec<String>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io(format!("reading {}", dir.display()))(error).into()),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(Error::io(format!("reading {}", dir.display())))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    Ok(names)
}

/// Removes a file or a directory tree; a missing one is no error.
pub fn remove_tree(path: &Path) -> Result<()> {
    orlop_fs::remove_tree(path)
        .map_err(|error| Error::io(format!("removing {}", path.display()))(error).into())
}

#[cfg(test)]
mod tests {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::*;

    #[test]
    fn what_could_not_be_recorded_for_want_of_descriptors_leaves_no_directory() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (dir.path().join("pods/one"), dir.path().join("run/one"));
        let usual = getrlimit(Resource::Nofile);
        let failed = recorded_in(&[&one, &other], || {
            let none = Rlimit {
                current: Some(0),
                ..usual
            };
            setrlimit(Resource::Nofile, none).unwrap();
            std::fs::File::create(one.join("journal")).map_err(Error::io("writing"))?;
            Ok(())
        });
        setrlimit(Resource::Nofile, usual).unwrap();
        assert!(failed.is_err());
        assert!(!one.exists() && !other.exists());
    }
}
