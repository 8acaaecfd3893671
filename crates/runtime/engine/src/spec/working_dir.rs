//! The working directory, which must not lead through a file that the runtime holds open.
//!
//! `/proc` exposes a process's open files. A working directory there could be the runtime's view of the
//! node (CVE-2024-21626). Current runtimes check for it too; older ones do not.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use orlop_cri_api::v1;
use rustix::fs::{FileType, Mode, OFlags, fstat, openat, readlinkat};

use super::Error;
use super::input::ImageFacts;

const FIELD: &str = "config.working_dir";

/// Limit of symbolic links, as in the kernel.
const MAX_LINKS: usize = 40;

/// Returns the working directory: the request's or the image's, else the root.
pub(super) fn asked(config: &v1::ContainerConfig, image: &ImageFacts<'_>) -> Result<String, Error> {
    let dir = match (config.working_dir.as_str(), image.working_dir) {
        ("", "") => "/".to_owned(),
        ("", relative) if !relative.starts_with('/') => format!("/{relative}"),
        ("", absolute) => absolute.to_owned(),
        (asked, _) => asked.to_owned(),
    };
    if !dir.starts_with('/') {
        return Err(Error::invalid(
            FIELD,
            format!("{dir:?} is not an absolute path"),
        ));
    }
    if dir.contains('\0') {
        return Err(Error::invalid(FIELD, "contains a NUL character"));
    }
    Ok(dir)
}

/// Refuses a directory that leads to the runtime's own files.
pub(super) fn check(rootfs: BorrowedFd<'_>, dir: &str) -> Result<(), Error> {
    if enters_open_files(rootfs, dir) {
        let problem = format!("{dir:?} resolves to open files of the container runtime");
        return Err(Error::invalid(FIELD, problem));
    }
    Ok(())
}

/// Whether a path, with the image's links followed, leads through the open files of a process at any point.
/// `..` behind such a file is on the node, so the final path alone is not enough.
fn enters_open_files(rootfs: BorrowedFd<'_>, path: &str) -> bool {
    let mut pending: Vec<String> = parts(path).rev().collect();
    // A path that is missing in the image, such as the content of `/proc`, has no descriptor.
    let mut here: Vec<(String, Option<OwnedFd>)> = Vec::new();
    let mut links = 0;
    while let Some(part) = pending.pop() {
        if part == ".." {
            here.pop();
            continue;
        }
        let found = match here.last() {
            None => look(rootfs, &part),
            Some((_, Some(dir))) => look(dir.as_fd(), &part),
            Some((_, None)) => None,
        };
        match found {
            Some(Found::Link(target)) => {
                links += 1;
                if links > MAX_LINKS {
                    // The kernel follows no more links either.
                    return false;
                }
                if target.starts_with('/') {
                    here.clear();
                }
                pending.extend(parts(&target).rev());
            }
            Some(Found::Other(opened)) => here.push((part, Some(opened))),
            None => here.push((part, None)),
        }
        if is_open_file(&here) {
            return true;
        }
    }
    false
}

enum Found {
    Link(String),
    Other(OwnedFd),
}

fn look(dir: BorrowedFd<'_>, part: &str) -> Option<Found> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(dir, part, flags, Mode::empty()).ok()?;
    let kind = FileType::from_raw_mode(fstat(&opened).ok()?.st_mode);
    if kind != FileType::Symlink {
        return Some(Found::Other(opened));
    }
    let target = readlinkat(&opened, "", Vec::new()).ok()?;
    Some(Found::Link(target.to_string_lossy().into_owned()))
}

fn is_open_file(here: &[(String, Option<OwnedFd>)]) -> bool {
    let parts: Vec<&str> = here.iter().map(|(part, _)| part.as_str()).collect();
    matches!(
        parts.as_slice(),
        ["proc", _, "fd" | "root" | "cwd" | "map_files", ..]
            | ["proc", _, "task", _, "fd" | "root" | "cwd", ..]
            | ["dev", "fd", ..]
    )
}

fn parts(path: &str) -> impl DoubleEndedIterator<Item = String> {
    path.split('/')
        .filter(|part| !matches!(*part, "" | "."))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;

    use super::*;

    fn image() -> (tempfile::TempDir, File) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        fs::create_dir_all(path.join("proc")).unwrap();
        fs::create_dir_all(path.join("srv/deep")).unwrap();
        symlink("/proc/self/fd/8", path.join("direct")).unwrap();
        symlink("../../proc", path.join("srv/deep/up")).unwrap();
        symlink("/srv", path.join("app")).unwrap();
        symlink("loop", path.join("loop")).unwrap();
        let root = File::open(path).unwrap();
        (dir, root)
    }

    #[test]
    fn the_working_directory_is_absolute_and_not_an_open_file() {
        let (_dir, root) = image();
        let dir = |own: &str, image: &str| {
            let config = v1::ContainerConfig {
                working_dir: own.into(),
                ..Default::default()
            };
            let facts = ImageFacts {
                working_dir: image,
                ..ImageFacts::default()
            };
            let dir = asked(&config, &facts)?;
            check(root.as_fd(), &dir).map(|()| dir)
        };
        assert_eq!(dir("", "").unwrap(), "/");
        assert_eq!(dir("", "app").unwrap(), "/app");
        assert_eq!(dir("/srv", "/app").unwrap(), "/srv");
        assert_eq!(dir("/not/there", "").unwrap(), "/not/there");
        assert!(dir("/app/deep", "").is_ok() && dir("/loop", "").is_ok());
        for bad in [
            "srv",
            "/proc/self/fd/7",
            "/x/../proc/./1/fd/8/",
            "/proc/thread-self/cwd",
            "/proc/self/task/1/fd/7",
            "/dev/fd/9",
            // Its parent directories are on the node.
            "/proc/self/fd/7/../../..",
            "/direct",
            "/direct/../../..",
            "/srv/deep/up/self/fd/7",
            "/app/deep/up/self/fd/7",
        ] {
            assert!(dir(bad, "").is_err(), "{bad}");
            assert!(bad == "srv" || dir("", bad).is_err(), "{bad}");
        }
    }
}
