//! The directory of a container's log, below the one that was chosen for its pod's.

use std::path::{Component, Path};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2};
use rustix::io::Errno;

use crate::error::{Error, Result};

/// Makes the directory of the log `path` as far as it is missing. `chosen` may be a link to
/// somewhere; below it pods may be able to write, so that no link is followed there.
pub fn make(chosen: &Path, path: &Path) -> Result<()> {
    let doing = || format!("making the directory of the log {}", path.display());
    std::fs::create_dir_all(chosen).map_err(Error::io(doing()))?;
    let beneath = path.strip_prefix(chosen).unwrap_or(path);
    let parent = beneath.parent().unwrap_or(Path::new(""));
    make_beneath(chosen, parent).map_err(|error| Error::io(doing())(error.into()).into())
}

fn make_beneath(chosen: &Path, beneath: &Path) -> rustix::io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut here = openat(CWD, chosen, flags, Mode::empty())?;
    for part in beneath.components() {
        let name = match part {
            Component::Normal(name) => name,
            Component::CurDir => continue,
            _ => return Err(Errno::INVAL),
        };
        match mkdirat(&here, name, Mode::from_bits_truncate(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        here = openat2(&here, name, flags, Mode::empty(), resolve)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_directory_for_logs_is_made_behind_a_pod_s_link() {
        let dir = tempfile::tempdir().unwrap();
        let (chosen, foreign) = (dir.path().join("chosen"), dir.path().join("foreign"));
        make(&chosen, &chosen.join("one/two/0.log")).unwrap();
        assert!(chosen.join("one/two").is_dir());
        make(&chosen, &chosen.join("0.log")).unwrap();

        std::fs::create_dir(&foreign).unwrap();
        std::os::unix::fs::symlink(&foreign, chosen.join("fake")).unwrap();
        make(&chosen, &chosen.join("fake/two/0.log")).unwrap_err();
        assert!(std::fs::read_dir(foreign).unwrap().next().is_none());
    }
}
