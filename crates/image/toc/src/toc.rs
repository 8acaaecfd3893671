//! A table of contents: its position, its expected digest, and its parser.

use std::io::Read;
use std::ops::Range;

use aws_lc_rs::digest::{Context, SHA256};
use flate2::bufread::MultiGzDecoder;

use crate::chunk::frames;
use crate::error::at_most;
use crate::index::Storage;
use crate::json::{self, Blob};
use crate::{Digest, Error, Index, Limits, Result, ztoc};

/// A table of contents that is located, but not fetched yet.
#[derive(Debug, Clone)]
pub struct Toc {
    pub(crate) form: Form,
    pub(crate) range: Range<u64>,
    /// Number of bytes of the layer that can contain file contents.
    pub(crate) payload: u64,
    /// Size of the layer.
    pub(crate) blob: u64,
}

#[derive(Debug, Clone)]
pub(crate) enum Form {
    EStargz(Digests),
    /// With the decompressed size.
    ZstdChunked(Digests, u64),
    Soci(Digest),
}

/// Expected digests of the table of contents. At least one is present.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Digests {
    /// Digest of the JSON.
    pub(crate) plain: Option<Digest>,
    /// Digest of the stored bytes.
    pub(crate) stored: Option<Digest>,
}

/// The block size of an archive, and the positions of the name, the size and the type in a header (POSIX, `ustar`).
const BLOCK: usize = 512;
const NAME: Range<usize> = 0..100;
const SIZE: Range<usize> = 124..136;
const TYPE: usize = 156;
/// The name of the table of contents in an eStargz layer.
const FILE: &[u8] = b"stargz.index.json";

impl Toc {
    /// Returns the bytes to fetch: of the layer, or for SOCI of the blob that [`crate::soci::Manifest`] named.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Verifies the fetched bytes, and builds the index from them.
    pub fn parse(&self, fetched: &[u8], limits: &Limits) -> Result<Index<Vec<u8>>> {
        let length = self.range.end - self.range.start;
        at_most("bytes of the table of contents", length, limits.fetched)?;
        if fetched.len() as u64 != length {
            return Err(Error::Table("has a different length than requested"));
        }
        let blob = |storage| Blob {
            storage,
            bytes: self.blob,
            payload: self.payload,
        };
        match &self.form {
            Form::EStargz(digests) => {
                is_promised("the table of contents", digests.stored, || {
                    Ok(Digest::of(fetched))
                })?;
                // Verified in a first pass and parsed in a second: neither holds the whole table in memory.
                let plain = || hash(estargz(fetched, limits)?);
                is_promised("the table of contents", digests.plain, plain)?;
                json::index(estargz(fetched, limits)?, blob(Storage::Members), limits)
            }
            Form::ZstdChunked(digests, length) => {
                is_promised("the table of contents", digests.stored, || {
                    Ok(Digest::of(fetched))
                })?;
                at_most(
                    "bytes of the decompressed table of contents",
                    *length,
                    limits.table,
                )?;
                let plain = || hash(zstd(fetched, *length)?);
                is_promised("the table of contents", digests.plain, plain)?;
                json::index(zstd(fetched, *length)?, blob(Storage::Frames), limits)
            }
            Form::Soci(digest) => {
                is_promised("the ztoc", Some(*digest), || Ok(Digest::of(fetched)))?;
                ztoc::index(fetched, self.blob, limits)
            }
        }
    }
}

fn is_promised(
    what: &'static str,
    expected: Option<Digest>,
    found: impl FnOnce() -> Result<Digest>,
) -> Result<()> {
    let Some(expected) = expected else {
        return Ok(());
    };
    let found = found()?;
    if found != expected {
        return Err(Error::Mismatch {
            what,
            expected,
            found,
        });
    }
    Ok(())
}

/// Returns a reader of the only file in the archive at the end of an eStargz layer.
fn estargz<'a>(fetched: &'a [u8], limits: &Limits) -> Result<impl Read + use<'a>> {
    let mut archive = MultiGzDecoder::new(fetched);
    let mut header = [0; BLOCK];
    archive.read_exact(&mut header).map_err(Error::Decompress)?;
    let until_nul = |field: Range<usize>| header[field].split(|byte| *byte == 0).next();
    let regular = matches!(header[TYPE], 0 | b'0');
    if !regular || until_nul(NAME) != Some(FILE) {
        return Err(Error::Table(
            "is not at the position that the footer specifies",
        ));
    }
    let digits = until_nul(SIZE).and_then(|digits| str::from_utf8(digits).ok());
    let size = digits.and_then(|digits| u64::from_str_radix(digits.trim(), 8).ok());
    let size = size.ok_or(Error::Table("has no size"))?;
    at_most(
        "bytes of the decompressed table of contents",
        size,
        limits.table,
    )?;
    Ok(archive.take(size))
}

/// Returns a reader of a zstd frame's content, limited to the announced size.
fn zstd(fetched: &[u8], length: u64) -> Result<impl Read + '_> {
    Ok(frames(fetched).map_err(Error::Decompress)?.take(length))
}

fn hash(mut from: impl Read) -> Result<Digest> {
    let mut hasher = Context::new(&SHA256);
    let mut buffer = vec![0; 64 << 10];
    loop {
        match from.read(&mut buffer).map_err(Error::Decompress)? {
            0 => return Ok(Digest::finish(hasher)),
            read => hasher.update(&buffer[..read]),
        }
    }
}
