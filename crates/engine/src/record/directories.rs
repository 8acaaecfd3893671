//! The directories that the daemon makes and removes.

use std::path::Path;

use crate::error::{Error, Result};

/// Makes the directories of something and then its record. Where one can't be made none stays:
/// nobody knows of them yet.
pub fn recorded_in<T>(directories: &[&Path], record: impl FnOnce() -> Result<T>) -> Result<T> {
    let made = directories
        .iter()
        .try_for_each(|directory| make_private_dir(directory))
        .and_then(|()| record());
    if made.is_err() {
        for directory in directories {
            if let Err(error) = remove_tree(directory) {
                tracing::warn!(%error, "undoing what could not be recorded; the next start does");
            }
        }
    }
    made
}

/// Makes a directory that only the daemon may list and change. Who knows a name below it may go
/// through: the root of a pod with users of its own has to.
pub fn make_private_dir(path: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .mode(0o711)
        .recursive(true)
        .create(path)
        .map_err(Error::io(format!(
            "making the directory {}",
            path.display()
        )))
        .map_err(Into::into)
}

/// The names in a directory; none if it is not there.
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

/// Removes a file or a whole directory; one that is not there is removed.
pub fn remove_tree(path: &Path) -> Result<()> {
    orlop_disk::remove_tree(path)
        .map_err(|error| Error::io(format!("removing {}", path.display()))(error).into())
}
