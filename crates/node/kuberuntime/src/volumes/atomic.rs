//! Writes a volume's files atomically.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use super::VolumeError;
use super::dirs::make_dir;
use super::owner::Ownership;
use super::payload::Payload;

/// The link to the current version of the files, and its replacement during an update.
const DATA: &str = "..data";
const DATA_NEXT: &str = "..data_tmp";

/// Writes a volume's files atomically: readers see all old files or all new ones.
///
/// ```text
/// volume/..2026_01_02_03_04_05.678901234/file    the files
/// volume/..data -> ..2026_01_02_03_04_05.678901234
/// volume/file -> ..data/file                      what users see
/// ```
///
/// Writes nothing if the files are up to date. Returns whether they were.
pub(super) fn write(
    target: &Path,
    payload: &Payload,
    ownership: Ownership,
) -> Result<bool, VolumeError> {
    let old = fs::read_link(target.join(DATA)).ok();
    let old = old.map(|name| target.join(name)).filter(|dir| dir.is_dir());
    if let Some(old) = &old
        && is_same(old, payload)
    {
        return Ok(false);
    }
    let stamp = jiff::Timestamp::now();
    let name = format!(
        "..{}.{:09}",
        stamp.strftime("%Y_%m_%d_%H_%M_%S"),
        stamp.subsec_nanosecond()
    );
    let fresh = target.join(&name);
    make_dir(&fresh, 0o755)?;
    set_mode(&fresh, 0o755)?;
    for (path, file) in payload {
        let at = fresh.join(path);
        if let Some(parent) = at.parent() {
            make_dir(parent, 0o755)?;
        }
        let mut open = OpenOptions::new();
        let opened = open.write(true).create_new(true).mode(0o600).open(&at);
        opened
            .and_then(|mut out| out.write_all(&file.content))
            .map_err(|source| VolumeError::io("write", &at, source))?;
        set_mode(&at, file.mode)?;
    }
    ownership.apply(&fresh)?;

    let next = target.join(DATA_NEXT);
    let _ = fs::remove_file(&next);
    symlink(&name, &next)
        .map_err(|source| VolumeError::io("create the symbolic link", &next, source))?;
    fs::rename(&next, target.join(DATA))
        .map_err(|source| VolumeError::io("rename", &next, source))?;

    let tops: BTreeSet<&str> = payload
        .keys()
        .filter_map(|path| path.split('/').next())
        .collect();
    for top in &tops {
        let link = target.join(top);
        if fs::symlink_metadata(&link).is_err() {
            symlink(format!("{DATA}/{top}"), &link)
                .map_err(|source| VolumeError::io("create the symbolic link", &link, source))?;
        }
    }
    remove_stale(target, &name, &tops)?;
    Ok(true)
}

/// Removes links to deleted files, and old versions.
fn remove_stale(target: &Path, current: &str, tops: &BTreeSet<&str>) -> Result<(), VolumeError> {
    let entries = fs::read_dir(target);
    let entries = entries.map_err(|source| VolumeError::io("read", target, source))?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let keep = name == DATA || name == current || tops.contains(name);
        if keep {
            continue;
        }
        let path = entry.path();
        orlop_fs::remove_tree(&path).map_err(|source| VolumeError::io("remove", &path, source))?;
    }
    Ok(())
}

/// Whether a version has exactly these files. Modes are not compared: they may include group
/// permissions.
fn is_same(dir: &Path, payload: &Payload) -> bool {
    let mut found = 0;
    let mut ahead: Vec<PathBuf> = vec![dir.to_owned()];
    while let Some(at) = ahead.pop() {
        let Ok(entries) = fs::read_dir(&at) else {
            return false;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            if path.is_dir() {
                ahead.push(path);
                continue;
            }
            let name = path.strip_prefix(dir).ok().and_then(Path::to_str);
            let wanted = name.and_then(|name| payload.get(name));
            let same = wanted.is_some_and(|file| {
                orlop_fs::read_file(&path, file.content.len() as u64)
                    .is_ok_and(|content| content == file.content)
            });
            if !same {
                return false;
            }
            found += 1;
        }
    }
    found == payload.len()
}

fn set_mode(path: &Path, mode: u32) -> Result<(), VolumeError> {
    fs::set_permissions(path, Permissions::from_mode(mode & 0o7777))
        .map_err(|source| VolumeError::io("set the mode of", path, source))
}

#[cfg(test)]
mod tests {
    use super::super::payload::File;
    use super::*;

    fn payload(files: &[(&str, &str)]) -> Payload {
        let file = |content: &str| File {
            content: content.as_bytes().to_vec(),
            mode: 0o640,
        };
        let files = files.iter();
        files.map(|(p, c)| ((*p).to_owned(), file(c))).collect()
    }

    fn visible(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .filter(|name| !name.starts_with(".."))
            .collect();
        names.sort();
        names
    }

    #[test]
    fn versions_follow_each_other_at_once_and_leave_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path();
        let first = payload(&[("a", "1"), ("sub/b", "2"), ("gone", "x")]);
        assert!(write(at, &first, Ownership::default()).unwrap());
        assert_eq!(visible(at), ["a", "gone", "sub"]);
        assert_eq!(fs::read_to_string(at.join("sub/b")).unwrap(), "2");
        let mode = fs::metadata(at.join("a")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert!(
            !write(at, &first, Ownership::default()).unwrap(),
            "nothing has changed"
        );

        let version = fs::read_link(at.join(DATA)).unwrap();
        let second = payload(&[("a", "one"), ("sub/b", "2")]);
        assert!(write(at, &second, Ownership::default()).unwrap());
        assert_eq!(visible(at), ["a", "sub"]);
        assert_eq!(fs::read_to_string(at.join("a")).unwrap(), "one");
        assert!(!at.join(version).exists(), "the former version is gone");
    }
}
