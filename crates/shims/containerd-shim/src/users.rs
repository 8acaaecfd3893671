//! User namespaces of pods: id-mapped mounts make the images' files appear with the pod's ids.
#![allow(unsafe_code)]

use std::fmt::Write as _;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use orlop_fs::mapped_clone;
use rustix::fs::{CWD, Mode, OFlags, open};
use rustix::mount::{MoveMountFlags, UnmountFlags, move_mount, unmount};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::error::{Result, failed, invalid, unknown};

/// Id-mapped mounts below a directory, which is removed with them.
#[derive(Debug)]
pub(crate) struct Mapped {
    dir: PathBuf,
    pub(crate) places: Vec<PathBuf>,
}

impl Mapped {
    /// Mounts these directories, in order.
    pub(crate) fn of(sources: &[&Path], users: &OwnedFd, dir: &Path) -> Result<Self> {
        let mut mapped = Self {
            dir: dir.to_owned(),
            places: Vec::new(),
        };
        for (number, source) in sources.iter().enumerate() {
            let place = dir.join(number.to_string());
            crate::place::make_private(&place)?;
            let clone =
                mapped_clone(source, users).map_err(failed("mapping the IDs of", source))?;
            let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
            move_mount(&clone, "", CWD, &place, flags).map_err(failed("mounting", &place))?;
            mapped.places.push(place);
        }
        Ok(mapped)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        for place in &self.places {
            let _ = unmount(place, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
            let _ = fs::remove_dir(place);
        }
        let _ = fs::remove_dir(&self.dir);
    }
}

/// Creates a user namespace with these maps in the format of the mount options: `inside:outside:count`, separated by
/// commas.
pub(crate) fn namespace(users: &str, groups: &str) -> Result<OwnedFd> {
    let (users, groups) = (lines(users)?, lines(groups)?);
    let problem = |doing: &str| failed(doing, Path::new("a user namespace"));
    let mut command = Command::new("/proc/self/exe");
    // The child waits for the end of its input.
    command
        .arg("-info")
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // SAFETY: a system call, in a process with one thread.
    unsafe {
        command.pre_exec(|| Ok(unshare_unsafe(UnshareFlags::NEWUSER)?));
    }
    let mut child = command.spawn().map_err(problem("creating"))?;
    let process = format!("/proc/{}", child.id());
    let made = write(&format!("{process}/uid_map"), &users)
        .and_then(|()| write(&format!("{process}/gid_map"), &groups))
        .and_then(|()| {
            let path = format!("{process}/ns/user");
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            open(path, flags, Mode::empty()).map_err(|error| problem("opening")(error.into()))
        });
    let _ = child.kill();
    let _ = child.wait();
    made
}

fn write(path: &str, lines: &str) -> Result<()> {
    fs::write(path, lines).map_err(failed("writing", Path::new(path)))
}

fn lines(map: &str) -> Result<String> {
    let mut lines = String::new();
    for range in map.split(',') {
        let numbers: Option<Vec<u32>> = range.split(':').map(|it| it.parse().ok()).collect();
        match numbers.as_deref() {
            Some([inside, outside, count]) => {
                let _ = writeln!(lines, "{inside} {outside} {count}");
            }
            _ => return Err(invalid(format!("{map} is not a valid ID mapping"))),
        }
    }
    if lines.is_empty() {
        return Err(unknown("an ID mapping is empty"));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::lines;

    #[test]
    fn maps_are_lines_for_the_kernel() {
        assert_eq!(
            lines("0:1000:65536,65536:7:1").unwrap(),
            "0 1000 65536\n65536 7 1\n"
        );
        for strange in ["", "0:1", "a:b:c", "0:1:2:3", "0:-1:2"] {
            assert!(lines(strange).is_err(), "{strange}");
        }
    }
}
