//! Encoding of replies for the kernel.

use std::os::fd::AsFd;

use rustix::io::Errno;

use super::number::{ROOT, open_flag};

/// Cache time of attributes and names in the kernel, in seconds. They do not change; the server invalidates a
/// removed name.
const FOR_LONG: u64 = 365 * 24 * 3600;

const DIRECTORY: u32 = 0o040_555;
const REGULAR: u32 = 0o100_444;
/// File types in directory entries: regular file and directory.
const KIND_REGULAR: u32 = 8;
const KIND_DIRECTORY: u32 = 4;

const BLOCK: u32 = 4096;
/// Size of a directory entry without its name.
const ENTRY_LEN: usize = 24;

/// The attributes of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About {
    pub(crate) node: u64,
    pub(crate) size: u64,
}

/// A small reply.
#[derive(Debug)]
pub(crate) struct Reply(Vec<u8>);

impl Reply {
    /// Builds the header of a reply; `length` is the total length.
    pub(crate) fn head(unique: u64, length: usize, errno: Option<Errno>) -> [u8; 16] {
        let error = errno.map_or(0, |errno| -errno.raw_os_error());
        let mut head = [0; 16];
        head[0..4].copy_from_slice(&(length as u32).to_ne_bytes());
        head[4..8].copy_from_slice(&error.to_ne_bytes());
        head[8..16].copy_from_slice(&unique.to_ne_bytes());
        head
    }

    /// Builds an error reply.
    pub(crate) fn error(unique: u64, errno: Errno) -> Self {
        Self(Self::head(unique, 16, Some(errno)).to_vec())
    }

    /// Builds a reply without data.
    pub(crate) fn done(unique: u64) -> Self {
        Self::with(unique, |_| {})
    }

    /// Builds a reply with these bytes.
    pub(crate) fn bytes(unique: u64, bytes: &[u8]) -> Self {
        Self::with(unique, |out| out.extend_from_slice(bytes))
    }

    /// Builds the reply to a successful lookup.
    pub(crate) fn entry(unique: u64, file: About) -> Self {
        Self::with(unique, |out| {
            put64(out, &[file.node, 0, FOR_LONG, FOR_LONG]);
            put32(out, &[0, 0]);
            attributes(out, file);
        })
    }

    /// Builds a reply with a file's attributes.
    pub(crate) fn attributes(unique: u64, file: About) -> Self {
        Self::with(unique, |out| {
            put64(out, &[FOR_LONG]);
            put32(out, &[0, 0]);
            attributes(out, file);
        })
    }

    /// Builds the reply to the opening of a file, with the kernel's cache enabled. Without the cache, each small read
    /// of an EROFS mount would be a request, and 30,000 files take 2.6 times as long.
    pub(crate) fn opened(unique: u64) -> Self {
        Self::with(unique, |out| {
            put64(out, &[0]);
            put32(out, &[open_flag::KEEP_CACHE | open_flag::NOFLUSH, 0]);
        })
    }

    /// Builds the reply to the opening of a directory.
    pub(crate) fn opened_directory(unique: u64) -> Self {
        Self::bytes(unique, &[0; 16])
    }

    /// Builds a statfs reply; the size of the file system is unknown.
    pub(crate) fn sizes(unique: u64) -> Self {
        Self::with(unique, |out| {
            put64(out, &[0; 5]);
            put32(out, &[BLOCK, 255, BLOCK, 0]);
            put32(out, &[0; 6]);
        })
    }

    /// Writes the reply to the kernel. An error because the reader is gone is ignored.
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

/// Directory entries, up to the requested size.
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

    /// Adds an entry; returns whether it fit. `next` is the offset where the next listing continues.
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
    // Nanoseconds of three timestamps; then mode, links, owner, group, device, block and flags.
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
