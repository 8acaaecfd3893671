//! Where the entries of a layer go.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::Unpacked;
use crate::tar::Entry;

/// Takes the entries of one layer, in the archive's order. Paths are clean and not the root unless that
/// is said. Directories on the way that the archive has not described are made, links on the way are
/// followed within the layer, and what stands in an entry's place gives way.
pub(crate) trait Target {
    /// What is left to do once the layers below are known.
    type Rest;

    /// The disk that is written to.
    fn disk(&self) -> BorrowedFd<'_>;

    /// Bytes of memory that are held until the end.
    fn held(&self) -> u64;

    /// The root directory's look.
    fn root(&mut self, entry: &Entry) -> Result<(), Problem>;

    /// A directory, or the look of one that is there.
    fn directory(&mut self, path: &[u8], entry: &Entry) -> Result<(), Problem>;

    /// A file of so many bytes, whose content comes next, its holes left out. Whether that cost an entry
    /// whose content was recorded.
    fn begin(&mut self, path: &[u8], entry: &Entry, size: u64) -> Result<bool, Problem>;

    /// The content of that file from there on; parts come in their order.
    fn content(&mut self, piece: &[u8], at: u64) -> io::Result<()>;

    /// That file is complete; so many bytes of it came.
    fn end(&mut self, entry: &Entry, stored: u64) -> Result<(), Problem>;

    /// A link, a device or a pipe. Whether that cost an entry whose content was recorded.
    fn special(&mut self, path: &[u8], entry: &Entry) -> Result<bool, Problem>;

    /// Another name for what is at `to`.
    fn hard_link(&mut self, path: &[u8], to: &[u8]) -> Result<Linked, Problem>;

    /// Hides what lower layers have at the path, but not what this one has there.
    fn whiteout(&mut self, path: &[u8]) -> Result<(), Problem>;

    /// Hides what lower layers have in a directory, which may be the root.
    fn opaque(&mut self, path: &[u8]) -> Result<(), Problem>;

    /// All entries have come. What they amount to, but for the bytes of their content; or what could not
    /// be finished.
    fn finish(self) -> Result<(Unpacked, Self::Rest), (Vec<u8>, Problem)>;
}

/// Why an entry cannot be put in its place.
#[derive(Debug)]
pub(crate) enum Problem {
    /// What the kernel says, or would say of a path.
    Kernel(Errno),
    /// The disk has failed.
    Disk(io::Error),
    /// There is more than can be kept of one layer.
    TooMuch(String),
}

impl From<Errno> for Problem {
    fn from(error: Errno) -> Self {
        Self::Kernel(error)
    }
}

/// What became of a hard link.
pub(crate) enum Linked {
    Done {
        /// Whether that cost an entry whose content was recorded.
        overwrote: bool,
    },
    /// There is nothing that it could be a name of.
    Missing,
    /// Directories have one name.
    Directory,
}
