//! The user and group files of an image, opened so that nothing in the image leads outside.

use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::BorrowedFd;

use orlop_disk::read_whole;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;

use super::Error;

/// Far beyond any honest file.
const MAX_FILE: u64 = 10 << 20;

/// One line of `/etc/passwd`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Passwd {
    pub(super) name: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// One line of `/etc/group`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) gid: u32,
    pub(super) members: Vec<String>,
}

/// The users of an image; none if it has no such file.
pub(super) fn users(root: BorrowedFd<'_>, field: &str) -> Result<Vec<Passwd>, Error> {
    let text = read(root, "etc/passwd", field)?;
    Ok(text.lines().filter_map(parse_passwd).collect())
}

/// The groups of an image; none if it has no such file.
pub(super) fn groups(root: BorrowedFd<'_>, field: &str) -> Result<Vec<Group>, Error> {
    let text = read(root, "etc/group", field)?;
    Ok(text.lines().filter_map(parse_group).collect())
}

/// `name:password:uid:gid:…`; a line of another form names nobody.
fn parse_passwd(line: &str) -> Option<Passwd> {
    let mut parts = line.trim().split(':');
    let name = parts
        .next()
        .filter(|name| !name.is_empty() && !name.starts_with('#'))?;
    let uid = parts.nth(1)?.parse().ok()?;
    let gid = parts.next()?.parse().ok()?;
    Some(Passwd {
        name: name.to_owned(),
        uid,
        gid,
    })
}

/// `name:password:gid:member,…`.
fn parse_group(line: &str) -> Option<Group> {
    let mut parts = line.trim().split(':');
    let name = parts
        .next()
        .filter(|name| !name.is_empty() && !name.starts_with('#'))?;
    let gid = parts.nth(1)?.parse().ok()?;
    let members = parts.next().unwrap_or_default().split(',');
    let members = members.map(str::trim).filter(|member| !member.is_empty());
    Some(Group {
        name: name.to_owned(),
        gid,
        members: members.map(str::to_owned).collect(),
    })
}

fn read(root: BorrowedFd<'_>, name: &str, field: &str) -> Result<String, Error> {
    // Links are followed as the container would see them, within its root; neither a FIFO nor a
    // terminal can hold us up.
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
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
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
        let users = users(root.as_fd(), "f").unwrap();
        let expected = [
            Passwd {
                name: "root".into(),
                uid: 0,
                gid: 0,
            },
            Passwd {
                name: "c".into(),
                uid: 8,
                gid: 9,
            },
        ];
        assert_eq!(users, expected);
    }

    #[test]
    fn members_are_listed() {
        let (dir, root) = root();
        fs::write(dir.path().join("etc/group"), "g:x:50:a, b,\nh:x:51\n").unwrap();
        let groups = groups(root.as_fd(), "f").unwrap();
        assert_eq!(groups[0].members, ["a", "b"]);
        assert_eq!(groups[1].gid, 51);
    }

    #[test]
    fn an_image_without_the_files_has_no_users() {
        let (_dir, root) = root();
        assert!(users(root.as_fd(), "f").unwrap().is_empty());
    }

    #[test]
    fn links_stay_within_the_image() {
        let (dir, root) = root();
        fs::create_dir(dir.path().join("store")).unwrap();
        fs::write(dir.path().join("store/passwd"), "in:x:5:5\n").unwrap();
        let passwd = dir.path().join("etc/passwd");
        symlink("/store/passwd", &passwd).unwrap();
        assert_eq!(users(root.as_fd(), "f").unwrap()[0].name, "in");

        fs::remove_file(&passwd).unwrap();
        let outside = tempfile::NamedTempFile::new().unwrap();
        fs::write(outside.path(), "out:x:0:0\n").unwrap();
        symlink(
            format!("../../../../../..{}", outside.path().display()),
            &passwd,
        )
        .unwrap();
        assert!(users(root.as_fd(), "f").unwrap().is_empty());
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
            users(root.as_fd(), "f"),
            Err(Error::InvalidArgument { .. })
        ));
    }
}
