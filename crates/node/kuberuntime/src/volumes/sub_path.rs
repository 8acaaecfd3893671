//! Opens subPaths of volumes without leaving the volume.

use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, StatxFlags, mkdirat, openat2, statx};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};

use super::VolumeError;
use super::dirs::make_dir;

/// Opens a subPath without leaving the volume, even if a container replaces parts with links
/// meanwhile, and bind-mounts it to `point`. A missing subPath is created as a directory.
pub(super) fn bind(volume: &Path, part: &str, point: &Path) -> Result<PathBuf, VolumeError> {
    let parts = plain_parts(part)?;
    let root = rustix::fs::open(volume, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .map_err(|source| VolumeError::io("open the volume", volume, source.into()))?;
    let opened = open_or_make(&root, &parts).map_err(|source| {
        VolumeError::io("open the subPath in", &volume.join(part), source.into())
    })?;
    if is_mounted(point) {
        // The mount of an older instance may refer to another file.
        let _ = rustix::mount::unmount(point, rustix::mount::UnmountFlags::DETACH);
    }
    let is_dir = statx(&opened, "", AtFlags::EMPTY_PATH, StatxFlags::TYPE)
        .is_ok_and(|stat| u32::from(stat.stx_mode) & 0o170_000 == 0o040_000);
    if is_dir {
        if point.is_file() {
            let _ = fs::remove_file(point);
        }
        make_dir(point, 0o750)?;
    } else {
        if point.is_dir() {
            let _ = fs::remove_dir(point);
        }
        if let Some(parent) = point.parent() {
            make_dir(parent, 0o750)?;
        }
        File::options()
            .create(true)
            .append(true)
            .open(point)
            .map_err(|source| VolumeError::io("create", point, source))?;
    }
    let source = format!("/proc/self/fd/{}", opened.as_fd().as_raw_fd());
    mount(
        source.as_str(),
        point,
        "",
        MountFlags::BIND | MountFlags::REC,
        None,
    )
    .map_err(|source| VolumeError::io("bind-mount a subPath to", point, source.into()))?;
    Ok(point.to_owned())
}

/// Splits a subPath into its components.
fn plain_parts(part: &str) -> Result<Vec<&str>, VolumeError> {
    let path = Path::new(part);
    let plain = path
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if part.is_empty() || !plain || part.contains('\0') {
        let why = "a subPath must be relative and must not contain ..";
        return Err(VolumeError::mount(part, why));
    }
    Ok(path
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => name.to_str(),
            _ => None,
        })
        .collect())
}

/// Opens or creates a subPath. Links are followed as long as they stay in the volume.
fn open_or_make(root: &OwnedFd, parts: &[&str]) -> Result<OwnedFd, Errno> {
    let open = |from: &OwnedFd, path: &str| {
        openat2(
            from,
            path,
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS,
        )
    };
    let whole = if parts.is_empty() {
        ".".to_owned()
    } else {
        parts.join("/")
    };
    match open(root, &whole) {
        Err(Errno::NOENT) => {}
        done => return done,
    }
    let mut path = String::new();
    let mut at = open(root, ".")?;
    for name in parts {
        if !path.is_empty() {
            path.push('/');
        }
        path.push_str(name);
        at = match open(root, &path) {
            Err(Errno::NOENT) => {
                match mkdirat(&at, *name, Mode::from_raw_mode(0o755)) {
                    // A dangling link: creating its target could leave the volume.
                    Err(Errno::EXIST) => return Err(Errno::NOENT),
                    made => made?,
                }
                open(root, &path)?
            }
            opened => opened?,
        };
    }
    Ok(at)
}

fn is_mounted(point: &Path) -> bool {
    let parent = point.parent().unwrap_or(Path::new("/"));
    let mounted = super::dirs::mounts_beneath(parent);
    mounted.iter().any(|mounted| mounted == point)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_way_leads_out_of_a_volume() {
        let dir = tempfile::tempdir().unwrap();
        let volume = dir.path().join("volume");
        fs::create_dir_all(volume.join("in")).unwrap();
        fs::write(volume.join("in/file"), "x").unwrap();
        fs::create_dir(dir.path().join("outside")).unwrap();
        symlink("../outside", volume.join("out")).unwrap();
        symlink("/etc", volume.join("absolute")).unwrap();
        symlink("in", volume.join("inside")).unwrap();
        symlink("../outside/new", volume.join("dangling")).unwrap();
        let root = rustix::fs::open(&volume, OFlags::PATH, Mode::empty()).unwrap();
        let rows = [
            ("in/file", true),
            ("in", true),
            ("inside/file", true),
            ("new/deep/dir", true),
            ("inside/made", true),
            ("out", false),
            ("out/x", false),
            ("absolute", false),
            ("absolute/passwd", false),
            ("dangling", false),
            ("in/file/x", false),
        ];
        for (part, fine) in rows {
            let parts = plain_parts(part).unwrap();
            assert_eq!(open_or_make(&root, &parts).is_ok(), fine, "{part}");
        }
        assert!(volume.join("new/deep/dir").is_dir() && volume.join("in/made").is_dir());
        assert!(!dir.path().join("outside/new").exists());
        assert!(plain_parts("../outside").is_err() && plain_parts("/etc").is_err());
    }
}
