//! Errors of tables of contents.

use std::io;

use crate::Digest;

/// The result type of functions that read a table of contents.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason to refuse a table of contents.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The table, or a part of it, exceeds a limit.
    #[error("{what}: {found} is more than the {most} allowed")]
    TooMuch {
        /// The kind of the limit.
        what: &'static str,
        /// The actual amount, as far as it was counted.
        found: u64,
        /// The limit.
        most: u64,
    },
    /// A digest is wrong.
    #[error("{what} has the digest {found}, not {expected}")]
    Mismatch {
        /// The object with the wrong digest.
        what: &'static str,
        /// The expected digest.
        expected: Digest,
        /// The actual digest.
        found: Digest,
    },
    /// An annotation cannot be parsed.
    #[error("the annotation {name} is malformed: {value:?}")]
    Annotation {
        /// The annotation's name.
        name: &'static str,
        /// The annotation's value, or the beginning of it.
        value: String,
    },
    /// The layer's footer has no valid position of the table of contents.
    #[error("the layer's footer {0}")]
    Footer(&'static str),
    /// The table of contents is not at its announced position.
    #[error("the table of contents {0}")]
    Table(&'static str),
    /// Decompression failed.
    #[error("decompressing the table of contents")]
    Decompress(#[source] io::Error),
    /// The table is not JSON, or not of the expected form.
    #[error("reading the table of contents")]
    Json(#[source] serde_json::Error),
    /// An offset of a ztoc is out of bounds.
    #[error("the ztoc is damaged: {0}")]
    Ztoc(&'static str),
    /// A SOCI index is invalid.
    #[error("the SOCI index {0}")]
    Soci(&'static str),
    /// An entry is invalid.
    #[error("the entry {name:?}: {problem}")]
    Entry {
        /// The entry's name, or the beginning of it.
        name: String,
        /// The problem with the entry.
        problem: Problem,
    },
}

/// A problem with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// `..` in a name.
    #[error("the name contains \"..\"")]
    Upwards,
    /// A NUL byte in a name.
    #[error("the name has a NUL byte")]
    Nul,
    /// A name or a path exceeds the limit of Linux.
    #[error("the name is too long")]
    NameTooLong,
    /// The path has too many directories.
    #[error("it is nested in more directories than allowed")]
    TooDeep,
    /// A whiteout without a name.
    #[error("the whiteout has no file name")]
    Whiteout,
    /// An entry that should be a directory is something else, or the other way round.
    #[error("it has two entries: one is a directory, and the other is not")]
    Conflict,
    /// The type is unknown.
    #[error("its type is unknown")]
    Kind,
    /// The size is negative.
    #[error("its size is out of range")]
    Size,
    /// The owner's number is not valid on Linux.
    #[error("its owner is out of range")]
    Owner,
    /// The device number is not valid on Linux.
    #[error("its device number is out of range")]
    Device,
    /// The target of a symbolic link is empty or not a valid path.
    #[error("the target of the link is not a path")]
    Target,
    /// The target of a hard link does not exist.
    #[error("the target of the hard link does not exist")]
    LinkToNothing,
    /// A hard link that refers to itself through other links.
    #[error("the hard link points to itself")]
    LinkLoop,
    /// A hard link to a directory.
    #[error("it is a hard link to a directory")]
    LinkToDirectory,
    /// A chunk without a file before it.
    #[error("it is a chunk without a file")]
    ChunkOfNothing,
    /// A chunk that does not begin at the previous one's end.
    #[error("its chunks have gaps or overlap")]
    Gap,
    /// The total length of the chunks differs from the file's size.
    #[error("the total length of its chunks differs from its size")]
    Cover,
    /// A chunk exceeds the limit.
    #[error("a chunk of it is larger than allowed")]
    ChunkTooLarge,
    /// A chunk, or its content, is outside of the layer.
    #[error("it is outside of the layer")]
    Outside,
    /// A chunk has no digest.
    #[error("a chunk of it has no sha256 digest")]
    Unverifiable,
    /// The content is not contiguous in the archive (GNU tar, "sparse").
    #[error("the archive stores its content as a sparse file")]
    Sparse,
    /// The extended attributes cannot be parsed, or are too large.
    #[error("its extended attributes are malformed or too large")]
    Xattrs,
}

impl Error {
    pub(crate) fn entry(name: &[u8], problem: Problem) -> Self {
        let shown = &name[..name.len().min(200)];
        Self::Entry {
            name: String::from_utf8_lossy(shown).into_owned(),
            problem,
        }
    }
}

/// Returns an error if `found` exceeds the limit `most`.
pub(crate) fn at_most(what: &'static str, found: u64, most: u64) -> Result<()> {
    if found > most {
        return Err(Error::TooMuch { what, found, most });
    }
    Ok(())
}
