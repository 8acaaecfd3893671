//! Images mounted as volumes: finding the image, and resolving a directory without leaving it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use orlop_cri_api::v1;
use rustix::fs::{FileType, Mode, OFlags, fstat, openat, readlinkat};
use rustix::io::Errno;

use super::Error;
use super::input::ImageMount;

/// Limit of symbolic links, as in the kernel.
const MAX_LINKS: usize = 40;

/// Returns the image that a mount of the request asks for, if any.
pub fn asked_image(mount: &v1::Mount) -> Option<&v1::ImageSpec> {
    mount.image.as_ref().filter(|image| !image.image.is_empty())
}

/// Refuses a mount with an image whose other fields do not allow one.
pub(super) fn check(mount: &v1::Mount, field: &str) -> Result<(), Error> {
    if !mount.host_path.is_empty() {
        return Err(Error::invalid(field, "both host_path and image are set"));
    }
    if !mount.readonly {
        let problem = "readonly must be set for an image volume";
        return Err(Error::invalid(field, problem));
    }
    Ok(())
}

/// Returns the path of a directory of the image that is mounted at a container path, for the runtime.
pub(super) fn source(
    (container_path, sub_path): (&str, &str),
    image_mounts: &[ImageMount<'_>],
    field: &str,
) -> Result<PathBuf, Error> {
    let Some(image) = find(container_path, image_mounts) else {
        let problem = "is not an image volume";
        return Err(unmountable(Error::unmet(format!("{field}.image"), problem)));
    };
    if sub_path.is_empty() {
        return Ok(image.path.to_path_buf());
    }
    let field = format!("{field}.image_sub_path");
    let below = directory(image.dir, sub_path, &field).map_err(unmountable)?;
    Ok(image.path.join(below))
}

fn unmountable(error: Error) -> Error {
    Error::ImageVolume(Box::new(error))
}

/// Finds the image that is mounted at a path of the container.
pub(super) fn find<'a, 'b>(
    container_path: &str,
    image_mounts: &'b [ImageMount<'a>],
) -> Option<&'b ImageMount<'a>> {
    image_mounts
        .iter()
        .find(|image| image.container_path == container_path)
}

/// Returns the path of a directory below `root` with all symbolic links resolved.
///
/// Each component is opened on its own, and links are resolved as for a process with this root, so no image
/// can name a path outside of it.
fn directory(root: BorrowedFd<'_>, path: &str, field: &str) -> Result<PathBuf, Error> {
    let missing = || {
        let problem = format!("the image has no directory {path:?}");
        Error::not_found(field, problem)
    };
    let failed = |error: Errno| Error::io(field, format!("looking up {path:?}"), error);
    let mut pending: Vec<String> = parts(path).rev().collect();
    let mut open: Vec<(String, OwnedFd)> = Vec::new();
    let mut links = 0;
    while let Some(part) = pending.pop() {
        if part == ".." {
            open.pop();
            continue;
        }
        let here = open.last().map_or(root, |(_, dir)| dir.as_fd());
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = match openat(here, part.as_str(), flags, Mode::empty()) {
            Err(Errno::NOENT | Errno::NOTDIR) => return Err(missing()),
            found => found.map_err(failed)?,
        };
        match FileType::from_raw_mode(fstat(&found).map_err(failed)?.st_mode) {
            FileType::Directory => open.push((part, found)),
            FileType::Symlink => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(failed(Errno::LOOP));
                }
                let target = readlinkat(&found, "", Vec::new()).map_err(failed)?;
                let target = target.into_string().map_err(|_| failed(Errno::ILSEQ))?;
                if target.starts_with('/') {
                    open.clear();
                }
                pending.extend(parts(&target).rev());
            }
            _ => return Err(missing()),
        }
    }
    Ok(open.into_iter().map(|(part, _)| part).collect())
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
    use std::path::Path;

    use super::*;

    fn image() -> (tempfile::TempDir, File) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        fs::create_dir_all(path.join("a/b")).unwrap();
        fs::write(path.join("a/file"), "").unwrap();
        symlink("/a", path.join("absolute")).unwrap();
        symlink("../../../../etc", path.join("a/up")).unwrap();
        symlink("loop", path.join("loop")).unwrap();
        symlink("../a/b", path.join("a/b/again")).unwrap();
        let root = File::open(path).unwrap();
        (dir, root)
    }

    #[test]
    fn links_are_taken_within_the_image() {
        let (dir, root) = image();
        let look = |path: &str| directory(root.as_fd(), path, "f");
        for (path, found) in [
            ("a/b", "a/b"),
            ("/a/./b/", "a/b"),
            ("absolute/b", "a/b"),
            ("../../a", "a"),
            ("a/b/..", "a"),
        ] {
            assert_eq!(look(path).unwrap(), Path::new(found), "{path}");
        }
        fs::create_dir(dir.path().join("etc")).unwrap();
        assert_eq!(look("a/up").unwrap(), Path::new("etc"));
    }

    #[test]
    fn what_is_no_directory_of_the_image_is_refused() {
        let (_dir, root) = image();
        for bad in [
            "nothing",
            "a/file",
            "a/file/x",
            "loop",
            "a/up",
            "a/b/again/x",
        ] {
            assert!(directory(root.as_fd(), bad, "f").is_err(), "{bad}");
        }
    }

    #[test]
    fn a_mount_finds_its_image_and_says_if_it_cannot() {
        let (dir, root) = image();
        let images = [ImageMount {
            container_path: "/mnt",
            path: dir.path(),
            dir: root.as_fd(),
            digest: "sha256:1",
        }];
        let mount = v1::Mount {
            container_path: "/mnt".into(),
            readonly: true,
            image: Some(v1::ImageSpec {
                image: "i".into(),
                ..Default::default()
            }),
            image_sub_path: "a/b".into(),
            ..Default::default()
        };
        check(&mount, "f").unwrap();
        let found = source(("/mnt", "a/b"), &images, "f").unwrap();
        assert_eq!(found, dir.path().join("a/b"));
        assert!(source(("/mnt", "a/b"), &[], "f").is_err());
        for bad in [
            v1::Mount {
                readonly: false,
                ..mount.clone()
            },
            v1::Mount {
                host_path: "/x".into(),
                ..mount
            },
        ] {
            let error = check(&bad, "f").unwrap_err();
            assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
        }
    }
}
