//! Replies, as the kernel reads them.

use std::os::fd::AsFd;

use rustix::io::Errno;

use super::number::{ROOT, open_flag};

/// How long the kernel may believe what it was told, in seconds. Nothing here changes; of a name that
/// is taken away it is told.
const FOR_LONG: u64 = 365 * 24 * 3600;

const DIRECTORY: u32 = 0o040_555;
const REGULAR: u32 = 0o100_444;
/// What a directory says of a regular file, and of a directory.
const KIND_REGULAR: u32 = 8;
const KIND_DIRECTORY: u32 = 4;

const BLOCK: u32 = 4096;
/// The bytes of an entry of a directory before its name.
const ENTRY_LEN: usize = 24;

/// What is known of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About {
    pub(crate) node: u64,
    pub(crate) size: u64,
}

/// An answer that is small.
#[derive(Debug)]
pub(crate) struct Reply(Vec<u8>);

impl Reply {
    /// The beginning of every answer: of so many bytes, all in all.
    pub(crate) fn head(unique: u64, length: usize, errno: Option<Errno>) -> [u8; 16] {
        let error = errno.map_or(0, |errno| -errno.raw_os_error());
        let mut head = [0; 16];
        head[0..4].copy_from_slice(&(length as u32).to_ne_bytes());
        head[4..8].copy_from_slice(&error.to_ne_bytes());
        head[8..16].copy_from_slice(&unique.to_ne_bytes());
        head
    }

    /// What was asked for cannot be had.
    pub(crate) fn error(unique: u64, errno: Errno) -> Self {
        Self(Self::head(unique, 16, Some(errno)).to_vec())
    }

    /// All is well, and no more is to be said.
    pub(crate) fn done(unique: u64) -> Self {
        Self::with(unique, |_| {})
    }

    /// These bytes.
    pub(crate) fn bytes(unique: u64, bytes: &[u8]) -> Self {
        Self::with(unique, |out| out.extend_from_slice(bytes))
    }

    /// A file was found.
    pub(crate) fn entry(unique: u64, file: About) -> Self {
        Self::with(unique, |out| {
            put64(out, &[file.node, 0, FOR_LONG, FOR_LONG]);
            put32(out, &[0, 0]);
            attributes(out, file);
        })
    }

    /// What a file is.
    pub(crate) fn attributes(unique: u64, file: About) -> Self {
        Self::with(unique, |out| {
            put64(out, &[FOR_LONG]);
            put32(out, &[0, 0]);
            attributes(out, file);
        })
    }

    /// A file is open. By the kernel's cache: past it each small read of an EROFS mount is a request of its
    /// own, and 30,000 files take 2.6 times as long.
    pub(crate) fn opened(unique: u64) -> Self {
        Self::with(unique, |out| {
            put64(out, &[0]);
            put32(out, &[open_flag::KEEP_CACHE | open_flag::NOFLUSH, 0]);
        })
    }

    /// A directory is open.
    pub(crate) fn opened_directory(unique: u64) -> Self {
        Self::bytes(unique, &[0; 16])
    }

    /// How large the file system is: nobody can say.
    pub(crate) fn sizes(unique: u64) -> Self {
        Self::with(unique, |out| {
            put64(out, &[0; 5]);
            put32(out, &[BLOCK, 255, BLOCK, 0]);
            put32(out, &[0; 6]);
        })
    }

    /// Gives it to the kernel. Who asked may be gone; there is nobody else to tell.
    pub(crate) fn send(&self, fuse: impl AsFd) {
        let _ = rustix::io::write(fuse, &self.0);
    }

    fn with(unique: u64, fill: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut out = vec![0; 16];
        fill(&mut out);
        let head = Self::head(unique, out.len(), None);
        out[..16].copy_from_slice(&head);
        Self(out)
    }
}

/// Entries of the directory, as many as somebody wants.
#[derive(Debug)]
pub(crate) struct Entries {
    bytes: Vec<u8>,
    most: usize,
}

impl Entries {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            bytes: Vec::new(),
            most,
        }
    }

    /// Adds one; whether there was room for it. `next` is where who comes back for more goes on.
    pub(crate) fn add(&mut self, node: u64, next: u64, name: &str) -> bool {
        let length = (ENTRY_LEN + name.len()).next_multiple_of(8);
        if self.bytes.len() + length > self.most {
            return false;
        }
        let end = self.bytes.len() + length;
        put64(&mut self.bytes, &[node, next]);
        let kind = if node == ROOT {
            KIND_DIRECTORY
        } else {
            KIND_REGULAR
        };
        put32(&mut self.bytes, &[name.len() as u32, kind]);
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.resize(end, 0);
        true
    }

    pub(crate) fn reply(&self, unique: u64) -> Reply {
        Reply::bytes(unique, &self.bytes)
    }
}

fn attributes(out: &mut Vec<u8>, file: About) {
    let (mode, links) = if file.node == ROOT {
        (DIRECTORY, 2)
    } else {
        (REGULAR, 1)
    };
    let blocks = file.size.div_ceil(512);
    put64(out, &[file.node, file.size, blocks, 0, 0, 0]);
    // Of three times the nanoseconds; then mode, links, owner, group, device, block and flags.
    put32(out, &[0, 0, 0, mode, links, 0, 0, 0, BLOCK, 0]);
}

fn put32(out: &mut Vec<u8>, words: &[u32]) {
    for word in words {
        out.extend_from_slice(&word.to_ne_bytes());
    }
}

fn put64(out: &mut Vec<u8>, words: &[u64]) {
    for word in words {
        out.extend_from_slice(&word.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_the_lengths_that_the_kernel_holds_them_to() {
        let file = About {
            node: 16,
            size: 1000,
        };
        assert_eq!(Reply::entry(1, file).0.len(), 16 + 128);
        assert_eq!(Reply::attributes(1, file).0.len(), 16 + 104);
        assert_eq!(Reply::opened(1).0.len(), 16 + 16);
        assert_eq!(Reply::sizes(1).0.len(), 16 + 80);
        let done = Reply::done(9).0;
        assert_eq!(done[0..4], 16_u32.to_ne_bytes());
        assert_eq!(done[8..16], 9_u64.to_ne_bytes());
        let error = Reply::error(9, Errno::IO).0;
        assert_eq!(error[4..8], (-5_i32).to_ne_bytes());
    }

    #[test]
    fn a_directory_gives_no_more_than_was_asked_for() {
        let mut entries = Entries::new(64);
        assert!(entries.add(16, 16, "abcdefgh"));
        assert!(entries.add(17, 17, "b"));
        assert!(!entries.add(18, 18, "c"));
        assert_eq!(entries.reply(1).0.len(), 16 + 64);
    }
}
