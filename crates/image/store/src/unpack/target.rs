//! The targets that a layer can be unpacked to.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::Unpacked;
use crate::tar::Entry;

/// Receiver of the entries of one layer, in the order of the archive.
///
/// Paths are clean and not the root, unless stated otherwise. The target creates undescribed parent directories,
/// follows links within the layer, and replaces existing entries.
pub(crate) trait Target {
    /// The part that is finished once the layers below are known.
    type Rest;

    /// Returns a descriptor on the target's file system.
    fn disk(&self) -> BorrowedFd<'_>;

    /// Returns the bytes of memory that are held until the end.
    fn held(&self) -> u64;

    /// Sets the attributes of the root directory.
    fn root(&mut self, entry: &Entry) -> Result<(), Problem>;

    /// Creates a directory, or sets the attributes of an existing one.
    fn directory(&mut self, path: &[u8], entry: &Entry) -> Result<(), Problem>;

    /// Starts a file of this size, whose content without holes follows. Returns whether it overwrote an entry with
    /// recorded content.
    fn begin(&mut self, path: &[u8], entry: &Entry, size: u64) -> Result<bool, Problem>;

    /// Writes content of that file at an offset. The pieces are in order.
    fn content(&mut self, piece: &[u8], at: u64) -> io::Result<()>;

    /// Completes that file, which received `stored` bytes.
    fn end(&mut self, entry: &Entry, stored: u64) -> Result<(), Problem>;

    /// Creates a link, device or pipe. Returns whether it overwrote an entry with recorded content.
    fn special(&mut self, path: &[u8], entry: &Entry) -> Result<bool, Problem>;

    /// Creates a hard link to the entry at `to`.
    fn hard_link(&mut self, path: &[u8], to: &[u8]) -> Result<Linked, Problem>;

    /// Hides what lower layers have at the path, but not what this layer has there.
    fn whiteout(&mut self, path: &[u8]) -> Result<(), Problem>;

    /// Hides the content of a directory in lower layers. The directory may be the root.
    fn opaque(&mut self, path: &[u8]) -> Result<(), Problem>;

    /// Finishes the layer after its last entry. Returns its totals without the bytes of content, or the path that
    /// could not be finished.
    fn finish(self) -> Result<(Unpacked, Self::Rest), (Vec<u8>, Problem)>;
}

/// The reason why an entry cannot be created.
#[derive(Debug)]
pub(crate) enum Problem {
    /// An error of the kernel, or an equivalent one for a path.
    Kernel(Errno),
    /// An error of the disk.
    Disk(io::Error),
    /// The layer exceeds what an image can hold.
    TooMuch(String),
}

impl From<Errno> for Problem {
    fn from(error: Errno) -> Self {
        Self::Kernel(error)
    }
}

/// The result of a hard link.
pub(crate) enum Linked {
    Done {
        /// Whether it overwrote an entry with recorded content.
        overwrote: bool,
    },
    /// The target does not exist.
    Missing,
    /// The target is a directory, which cannot be linked.
    Directory,
}
