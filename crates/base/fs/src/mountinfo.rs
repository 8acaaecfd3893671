//! The kernel's mount table, read line by line.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// The mount table of a process: its file `mountinfo` of `proc(5)`.
#[derive(Debug)]
pub struct Mountinfo(Vec<u8>);

/// An entry of the table: `id parent major:minor root point options optional… - kind source options`.
#[derive(Debug, Clone, Copy)]
pub struct Mount<'a> {
    device: &'a [u8],
    root: &'a [u8],
    point: &'a [u8],
    optional: &'a [u8],
    kind: &'a [u8],
    options: &'a [u8],
}

impl Mountinfo {
    /// Reads the table of this process's mount namespace.
    pub fn own() -> io::Result<Self> {
        crate::read_kernel_file("/proc/self/mountinfo").map(Self)
    }

    /// Reads the table of a process's mount namespace.
    pub fn of(pid: u32) -> io::Result<Self> {
        crate::read_kernel_file(format!("/proc/{pid}/mountinfo")).map(Self)
    }

    /// Wraps a table that was read elsewhere.
    pub fn from_text(text: impl Into<Vec<u8>>) -> Self {
        Self(text.into())
    }

    /// Returns all mounts, in the order in which they were made: of several at one path the last is visible.
    pub fn mounts(&self) -> impl DoubleEndedIterator<Item = Mount<'_>> {
        self.0.split(|byte| *byte == b'\n').filter_map(Mount::parse)
    }

    /// Returns the mount points below a directory, without the directory itself.
    pub fn points_beneath(&self, dir: &Path) -> impl DoubleEndedIterator<Item = PathBuf> {
        let points = self.mounts().map(|mount| mount.point());
        points.filter(move |point| point.starts_with(dir) && point != dir)
    }
}

impl<'a> Mount<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        let mut rest = line;
        let mut word = || {
            let (word, after) = split_at_blank(rest);
            rest = after;
            word
        };
        let (_, _) = (word(), word());
        let (device, root, point, _) = (word(), word(), word(), word());
        let before = rest;
        let mut optional = 0;
        loop {
            let (word, after) = split_at_blank(rest);
            rest = after;
            match word {
                b"-" => break,
                [] => return None,
                word => optional += word.len() + 1,
            }
        }
        let (kind, after) = split_at_blank(rest);
        let (_source, options) = split_at_blank(after);
        (!point.is_empty()).then_some(Self {
            device,
            root,
            point,
            optional: &before[..optional],
            kind,
            options,
        })
    }

    /// Returns the device numbers: the same for all mounts of one file system.
    pub fn device(&self) -> String {
        String::from_utf8_lossy(self.device).into_owned()
    }

    /// Returns the mounted directory of the file system.
    pub fn root(&self) -> PathBuf {
        unescape(self.root)
    }

    /// Returns the mount point.
    pub fn point(&self) -> PathBuf {
        unescape(self.point)
    }

    /// Returns whether mounts below it propagate to its peers and back.
    pub fn is_shared(&self) -> bool {
        self.has_optional(b"shared:")
    }

    /// Returns whether mounts below its master propagate to it.
    pub fn is_slave(&self) -> bool {
        self.has_optional(b"master:")
    }

    fn has_optional(&self, begin: &[u8]) -> bool {
        let mut words = self.optional.split(|byte| *byte == b' ');
        words.any(|word| word.starts_with(begin))
    }

    /// Returns the type of the file system: `overlay`, `nfs4`, `fuse.sshfs` …
    pub fn kind(&self) -> &'a str {
        std::str::from_utf8(self.kind).unwrap_or_default()
    }

    /// Returns the options of the file system itself, in the kernel's format.
    pub fn options(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.options.split(|byte| *byte == b',')
    }

    /// Returns the options that are valid UTF-8.
    pub fn words(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.options()
            .filter_map(|option| std::str::from_utf8(option).ok())
    }
}

fn split_at_blank(text: &[u8]) -> (&[u8], &[u8]) {
    match text.iter().position(|byte| *byte == b' ') {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &[]),
    }
}

/// Decodes the kernel's `\ooo` escapes of blanks, backslashes and others.
pub fn unescape(text: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let code = after
            .get(..3)
            .filter(|_| *first == b'\\')
            .and_then(|code| std::str::from_utf8(code).ok())
            .and_then(|code| u8::from_str_radix(code, 8).ok());
        out.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsString::from_vec(out))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn a_line_says_what_is_mounted_where() {
        let table = Mountinfo::from_text(
            *b"22 20 8:16 /x /a\\040b rw,nosuid master:3 shared:2 - xfs /dev/sdb rw,upperdir=/u\\054v\n\
               23 20 0:44 / /\xff rw - fuse.sshfs server:/x rw\n\
               short line\n24 20 0:4 / /cut rw shared:1\n",
        );
        let mounts: Vec<_> = table.mounts().collect();
        let [first, second] = mounts[..] else {
            panic!("{mounts:?}")
        };
        assert_eq!(first.device(), "8:16");
        assert_eq!(first.root(), Path::new("/x"));
        assert_eq!(first.point(), Path::new("/a b"));
        assert!(first.is_shared() && first.is_slave());
        assert_eq!(first.kind(), "xfs");
        assert_eq!(first.words().last(), Some("upperdir=/u\\054v"));
        assert_eq!(second.point().as_os_str().as_bytes(), b"/\xff");
        assert!(!second.is_shared() && !second.is_slave());
        assert_eq!(second.kind(), "fuse.sshfs");
    }

    #[test]
    fn what_is_beneath_a_directory_is_not_what_is_beside_it() {
        let line = |point: &str| format!("1 1 0:1 / {point} rw - tmpfs t rw\n");
        let text: String = ["/a", "/ab", "/a/b", "/a/c"].map(line).concat();
        let table = Mountinfo::from_text(text);
        let beneath: Vec<_> = table.points_beneath(Path::new("/a")).collect();
        assert_eq!(beneath, [Path::new("/a/b"), Path::new("/a/c")]);
    }

    #[test]
    fn octal_numbers_are_undone_and_nothing_else() {
        assert_eq!(unescape(br"/a\040b\134c"), Path::new(r"/a b\c"));
        assert_eq!(unescape(br"/a\9"), Path::new(r"/a\9"));
        assert_eq!(unescape(br"/a\77"), Path::new(r"/a\77"));
    }
}
