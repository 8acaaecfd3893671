//! The user and group files of an image, opened so that no link leads outside the image.

use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::BorrowedFd;

use orlop_fs::read_whole;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;

use super::Error;

/// Size limit in bytes, far beyond any honest file.
const MAX_FILE: u64 = 10 << 20;

/// A line of `/etc/passwd`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Passwd<'t> {
    pub(super) name: &'t str,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// A line of `/etc/group`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Group<'t> {
    pub(super) name: &'t str,
    pub(super) gid: u32,
    members: &'t str,
}

impl Group<'_> {
    /// Whether the group lists a user of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.members.split(',').any(|member| member.trim() == name)
    }
}

/// Returns the text of the image's `/etc/passwd`; empty if the image has no such file.
pub(super) fn passwd_file(root: BorrowedFd<'_>, field: &str) -> Result<String, Error> {
    read(root, "etc/passwd", field)
}

/// Returns the text of the image's `/etc/group`; empty if the image has no such file.
pub(super) fn group_file(root: BorrowedFd<'_>, field: &str) -> Result<String, Error> {
    read(root, "etc/group", field)
}

/// Iterates over the users of a file. They are not collected: a file of ten MiB has two million lines.
pub(super) fn users(text: &str) -> impl Iterator<Item = Passwd<'_>> {
    text.lines().filter_map(parse_passwd)
}

/// Iterates over the groups of a file, which are not collected either.
pub(super) fn groups(text: &str) -> impl Iterator<Item = Group<'_>> {
    text.lines().filter_map(parse_group)
}

/// Parses `name:password:uid:gid:…`; a line of another form is ignored.
fn parse_passwd(line: &str) -> Option<Passwd<'_>> {
    let mut parts = line.trim().split(':');
    let name = parts
        .next()
        .filter(|name| !name.is_empty() && !name.starts_with('#'))?;
    let uid = parts.nth(1)?.parse().ok()?;
    let gid = parts.next()?.parse().ok()?;
    Some(Passwd { name, uid, gid })
}

/// Parses `name:password:gid:member,…`.
fn parse_group(line: &str) -> Option<Group<'_>> {
    let mut parts = line.trim().split(':');
    let name = parts
        .next()
        .filter(|name| !name.is_empty() && !name.starts_with('#'))?;
    let gid = parts.nth(1)?.parse().ok()?;
    let members = parts.next().unwrap_or_default();
    Some(Group { name, gid, members })
}

fn read(root: BorrowedFd<'_>, name: &str, field: &str) -> Result<String, Error> {
    // Links are followed as the container would see them, within its root. The flags prevent blocking on a
    // FIFO or terminal.
    let opened = openat2(
        root,
        name,
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
    );
    let action = || format!("reading the image's /{name}");
    let file = match opened {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(String::new()),
        opened => opened.map_err(|error| Error::io(field, action(), error))?,
    };
    let stat = fstat(&file).map_err(|error| Error::io(field, action(), error))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Error::invalid(
            field,
            format!("the image's /{name} is not a file"),
        ));
    }
    match read_whole(File::from(file), MAX_FILE) {
        Ok(bytes) => Ok(String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())),
        Err(error) if error.kind() == ErrorKind::FileTooLarge => {
            let problem = format!("the image's /{name} is larger than {MAX_FILE} bytes");
            Err(Error::invalid(field, problem))
        }
        Err(error) => Err(Error::io(field, action(), error)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd;
    use std::os::unix::fs::symlink;

    use super::*;

    fn root() -> (tempfile::TempDir, File) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("etc")).unwrap();
        let root = File::open(dir.path()).unwrap();
        (dir, root)
    }

    #[test]
    fn lines_of_other_forms_name_nobody() {
        let (dir, root) = root();
        let text = "# x:x:1:1\nroot:x:0:0:root:/root:/bin/sh\n\nbad\na:x:one:1\nb:x:7\nc::8:9\n";
        fs::write(dir.path().join("etc/passwd"), text).unwrap();
        let text = passwd_file(root.as_fd(), "f").unwrap();
        let expected =
            [("root", 0, 0), ("c", 8, 9)].map(|(name, uid, gid)| Passwd { name, uid, gid });
        assert_eq!(users(&text).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn members_are_listed() {
        let (dir, root) = root();
        fs::write(dir.path().join("etc/group"), "g:x:50:a, b,\nh:x:51\n").unwrap();
        let text = group_file(root.as_fd(), "f").unwrap();
        let groups: Vec<_> = groups(&text).collect();
        assert!(groups[0].has("a") && groups[0].has("b"));
        assert!(!groups[0].has("a, b") && !groups[1].has("a"));
        assert_eq!(groups[1].gid, 51);
    }

    #[test]
    fn an_image_without_the_files_has_no_users() {
        let (_dir, root) = root();
        assert_eq!(passwd_file(root.as_fd(), "f").unwrap(), "");
    }

    #[test]
    fn links_stay_within_the_image() {
        let (dir, root) = root();
        fs::create_dir(dir.path().join("store")).unwrap();
        fs::write(dir.path().join("store/passwd"), "in:x:5:5\n").unwrap();
        let passwd = dir.path().join("etc/passwd");
        symlink("/store/passwd", &passwd).unwrap();
        assert_eq!(passwd_file(root.as_fd(), "f").unwrap(), "in:x:5:5\n");

        fs::remove_file(&passwd).unwrap();
        let outside = tempfile::NamedTempFile::new().unwrap();
        fs::write(outside.path(), "out:x:0:0\n").unwrap();
        symlink(
            format!("../../../../../..{}", outside.path().display()),
            &passwd,
        )
        .unwrap();
        assert_eq!(passwd_file(root.as_fd(), "f").unwrap(), "");
    }

    #[test]
    fn what_is_not_a_file_is_refused_without_waiting() {
        let (dir, root) = root();
        let fifo = dir.path().join("etc/passwd");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        assert!(matches!(
            passwd_file(root.as_fd(), "f"),
            Err(Error::InvalidArgument { .. })
        ));
    }

    /// CVE-2026-47262 and CVE-2025-4437: the daemon reads such a file into memory.
    #[test]
    fn a_file_without_end_is_refused_by_its_name() {
        let (dir, root) = root();
        for name in ["etc/passwd", "etc/group"] {
            let file = File::create(dir.path().join(name)).unwrap();
            file.set_len(MAX_FILE + 1).unwrap();
            let refused = read(root.as_fd(), name, "f").map(drop);
            let error = refused.unwrap_err().to_string();
            assert!(error.contains(&format!("/{name} is larger")), "{error}");
        }
    }
}
