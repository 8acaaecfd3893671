//! Detached mounts that the caller has made for a container. They are attached in the container's own mount namespace,
//! so that the host's mounts are copied only once, and not for the caller's view too. With [`NAMESPACE`] they are not
//! copied at all.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{MoveMountFlags, move_mount};

use crate::error::{Error, Result, While};
use crate::mount::{make_private_below, name};
use crate::sys::{passed_on, unshare_mounts};

/// One line per mount: the number of its descriptor, a blank, and the path of an empty directory or file.
pub(crate) const VARIABLE: &str = "ORLOP_RUN_MOUNTS";

/// The number of a descriptor, a blank, and a path. The descriptor is a mount namespace with very few mounts; the path
/// is an empty directory in it. If possible, the container's namespace is made from it instead of a copy of the
/// caller's.
pub(crate) const NAMESPACE: &str = "ORLOP_RUN_NAMESPACE";

/// Descriptors of the mounts, with their paths.
#[derive(Debug, Default)]
pub(crate) struct Attached {
    mounts: Vec<Given>,
    few: Option<(OwnedFd, PathBuf)>,
}

#[derive(Debug)]
struct Given {
    mount: OwnedFd,
    /// The path in the environment variable.
    told: PathBuf,
    /// The same path with symlinks resolved.
    place: PathBuf,
}

impl Attached {
    /// Takes the mounts that the environment names, if there are any.
    pub(crate) fn passed_on() -> Result<Self> {
        let told = std::env::var_os(VARIABLE).unwrap_or_default();
        let lines = told.as_bytes().split(|byte| *byte == b'\n');
        let lines = lines.filter(|line| !line.is_empty());
        let mounts = lines.map(one).collect::<Result<_>>()?;
        let few = std::env::var_os(NAMESPACE);
        let few = few.map(|told| passed(NAMESPACE, told.as_bytes()));
        Ok(Self {
            mounts,
            few: few.transpose()?,
        })
    }

    /// Attaches the mounts in a new mount namespace of this process.
    pub(crate) fn enter(self) -> Result<()> {
        if self.mounts.is_empty() {
            return Ok(());
        }
        unshare_mounts().doing(|| "cannot create a mount namespace".to_owned())?;
        for Given {
            mount, place: path, ..
        } in self.mounts
        {
            let told = || format!("{VARIABLE}: cannot attach the mount at {}", path.display());
            let place = name(&path).doing(told)?;
            // If the host's mounts are shared, the mount would propagate to the host.
            make_private_below(place.as_fd()).doing(told)?;
            let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
            move_mount(&mount, c"", CWD, &path, flags).doing(told)?;
        }
        Ok(())
    }

    /// Returns a copy of the descriptor for a path.
    pub(crate) fn at(&self, place: &Path) -> Result<Option<OwnedFd>> {
        let found = self.which(place).map(|at| &self.mounts[at]);
        let copy = found.map(|it| it.mount.try_clone()).transpose();
        copy.doing(|| VARIABLE.to_owned())
    }

    /// Returns the index of the mount for a path, with symlinks resolved or not.
    pub(crate) fn which(&self, place: &Path) -> Option<usize> {
        let mut all = self.mounts.iter();
        all.position(|it| it.place == place || it.told == place)
    }

    /// Returns all mounts except the one at this path.
    pub(crate) fn but_at(&self, place: &Path) -> impl Iterator<Item = (&OwnedFd, &PathBuf)> {
        let elsewhere = self.mounts.iter().filter(move |it| it.place != place);
        elsewhere.map(|it| (&it.mount, &it.place))
    }

    /// Returns all paths, as given and with symlinks resolved.
    pub(crate) fn places(&self) -> impl Iterator<Item = [&Path; 2]> {
        let all = self.mounts.iter();
        all.map(|it| [it.told.as_path(), it.place.as_path()])
    }

    /// Returns the namespace with few mounts, and an empty directory there.
    pub(crate) fn few(&self) -> Option<(&OwnedFd, &Path)> {
        self.few
            .as_ref()
            .map(|(namespace, place)| (namespace, &**place))
    }
}

fn one(line: &[u8]) -> Result<Given> {
    let (mount, told) = passed(VARIABLE, line)?;
    // Resolved like the path of the root file system, which may be among them.
    let place = told.canonicalize();
    let place = place.doing(|| format!("{VARIABLE}: {}", told.display()))?;
    Ok(Given { mount, told, place })
}

fn passed(variable: &str, line: &[u8]) -> Result<(OwnedFd, PathBuf)> {
    let wrong = || Error::new(format!("{variable}: {:?}", String::from_utf8_lossy(line)));
    let blank = line
        .iter()
        .position(|byte| *byte == b' ')
        .ok_or_else(wrong)?;
    let number = std::str::from_utf8(&line[..blank]).ok();
    let number: u32 = number.and_then(|it| it.parse().ok()).ok_or_else(wrong)?;
    let path = PathBuf::from(OsString::from_vec(line[blank + 1..].to_vec()));
    if !path.is_absolute() || number < 3 {
        return Err(wrong());
    }
    let descriptor = passed_on(number).doing(|| format!("{variable}: descriptor {number}"))?;
    Ok((descriptor, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_no_descriptor_or_no_path_is_refused() {
        for line in [
            "",
            "x",
            "9",
            "9 ",
            "9 relative",
            "1 /standard/output",
            "-4 /a",
            "4000 /nothing",
        ] {
            assert!(one(line.as_bytes()).is_err(), "{line:?}");
        }
    }

    #[test]
    fn a_descriptor_is_taken_over_and_passed_on_no_more() {
        let (read, _write) = std::io::pipe().unwrap();
        rustix::io::fcntl_setfd(&read, rustix::io::FdFlags::empty()).unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&read);
        let dir = tempfile::tempdir().unwrap();
        let (place, link) = (dir.path().join("a b"), dir.path().join("link"));
        std::fs::create_dir(&place).unwrap();
        std::os::unix::fs::symlink(&place, &link).unwrap();
        let given = one(format!("{number} {}", link.display()).as_bytes()).unwrap();
        assert_eq!(given.place, place.canonicalize().unwrap());
        assert_eq!(given.told, link);
        for fd in [read.as_fd(), given.mount.as_fd()] {
            let flags = rustix::io::fcntl_getfd(fd).unwrap();
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        }
    }
}
