//! Why a layer can't be used before all of it is there.

use std::io;

use crate::Digest;

/// The result of what reads a table of contents.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a table of contents was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It, or what is in it, is larger than allowed.
    #[error("{what}: {found} is more than the {most} allowed")]
    TooMuch {
        /// What there is too much of.
        what: &'static str,
        /// How much of it, as far as it was counted.
        found: u64,
        /// How much there may be.
        most: u64,
    },
    /// The bytes are not those that were promised.
    #[error("{what} has the digest {found}, not {expected}")]
    Mismatch {
        /// What was looked at.
        what: &'static str,
        /// What was promised.
        expected: Digest,
        /// What there is.
        found: Digest,
    },
    /// An annotation can't be read.
    #[error("the annotation {name} is malformed: {value:?}")]
    Annotation {
        /// Its name.
        name: &'static str,
        /// Its value, or the beginning of it.
        value: String,
    },
    /// The end of the layer does not say where its table of contents is.
    #[error("the layer's footer {0}")]
    Footer(&'static str),
    /// The table of contents does not stand where it is said to.
    #[error("the table of contents {0}")]
    Table(&'static str),
    /// It can't be decompressed.
    #[error("decompressing the table of contents")]
    Decompress(#[source] io::Error),
    /// It is no JSON, or other JSON.
    #[error("reading the table of contents")]
    Json(#[source] serde_json::Error),
    /// A ztoc's offsets lead nowhere.
    #[error("the ztoc is damaged: {0}")]
    Ztoc(&'static str),
    /// A SOCI index is not what it should be.
    #[error("the SOCI index {0}")]
    Soci(&'static str),
    /// An entry can't be what it says.
    #[error("the entry {name:?}: {problem}")]
    Entry {
        /// Its name, or the beginning of it.
        name: String,
        /// What is wrong with it.
        problem: Problem,
    },
}

/// What is wrong with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// `..` in a name.
    #[error("the name contains \"..\"")]
    Upwards,
    /// A NUL byte in a name.
    #[error("the name has a NUL byte")]
    Nul,
    /// A name, or a whole path, is longer than Linux has them.
    #[error("the name is too long")]
    NameTooLong,
    /// It is in too many directories.
    #[error("it is nested in more directories than allowed")]
    TooDeep,
    /// A whiteout of no name.
    #[error("the whiteout has no file name")]
    Whiteout,
    /// There is something else where a directory has to be, or the other way round.
    #[error("it has two entries: one is a directory, and the other is not")]
    Conflict,
    /// Its type is none that is known.
    #[error("its type is unknown")]
    Kind,
    /// Its size is negative.
    #[error("its size is out of range")]
    Size,
    /// Its owner has no number that Linux knows.
    #[error("its owner is out of range")]
    Owner,
    /// Its device has no number that Linux knows.
    #[error("its device number is out of range")]
    Device,
    /// A symbolic link to nothing, or to what is no path.
    #[error("the target of the link is not a path")]
    Target,
    /// A hard link to what is not there.
    #[error("the target of the hard link does not exist")]
    LinkToNothing,
    /// A hard link that leads back to itself.
    #[error("the hard link points to itself")]
    LinkLoop,
    /// A hard link to a directory.
    #[error("it is a hard link to a directory")]
    LinkToDirectory,
    /// A chunk that no file comes before.
    #[error("it is a chunk without a file")]
    ChunkOfNothing,
    /// A chunk that does not begin where the one before ends.
    #[error("its chunks have gaps or overlap")]
    Gap,
    /// The chunks are not as long as the file.
    #[error("the total length of its chunks differs from its size")]
    Cover,
    /// A chunk is larger than allowed.
    #[error("a chunk of it is larger than allowed")]
    ChunkTooLarge,
    /// A chunk, or its content, is not inside of the layer.
    #[error("it is outside of the layer")]
    Outside,
    /// There is nothing to verify a chunk by.
    #[error("a chunk of it has no sha256 digest")]
    Unverifiable,
    /// Its content is not in one piece in the archive (GNU tar, "sparse").
    #[error("the archive stores its content as a sparse file")]
    Sparse,
    /// The extended attributes can't be read, or are too large.
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

/// Refuses more of something than there may be.
pub(crate) fn at_most(what: &'static str, found: u64, most: u64) -> Result<()> {
    if found > most {
        return Err(Error::TooMuch { what, found, most });
    }
    Ok(())
}
