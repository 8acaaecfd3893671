//! Finds programs in this process's `PATH`.

use std::path::PathBuf;

use rustix::fs::{Access, access};

/// Returns the first executable file with this name.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|place| {
            place.is_absolute() && place.is_file() && access(place, Access::EXEC_OK).is_ok()
        })
}
