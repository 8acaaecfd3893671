//! A table of contents: where it is, what it must be, and what it says.

use std::io::Read;
use std::ops::Range;

use aws_lc_rs::digest::{Context, SHA256};
use flate2::bufread::MultiGzDecoder;

use crate::chunk::frames;
use crate::error::at_most;
use crate::index::Storage;
use crate::json::{self, Blob};
use crate::{Digest, Error, Index, Limits, Result, ztoc};

/// A table of contents that is known, but not there yet.
#[derive(Debug, Clone)]
pub struct Toc {
    pub(crate) form: Form,
    pub(crate) range: Range<u64>,
    /// Bytes of the layer that content can be in.
    pub(crate) payload: u64,
    /// Bytes of the layer.
    pub(crate) blob: u64,
}

#[derive(Debug, Clone)]
pub(crate) enum Form {
    EStargz(Digests),
    /// With the bytes that it is decompressed to.
    ZstdChunked(Digests, u64),
    Soci(Digest),
}

/// What the table of contents must be. One of them is there at least.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Digests {
    /// As JSON.
    pub(crate) plain: Option<Digest>,
    /// As it stands in the layer.
    pub(crate) stored: Option<Digest>,
}

/// What an archive is made of, and where a header has the name, the size and the type of what is behind it (POSIX,
/// `ustar`).
const BLOCK: usize = 512;
const NAME: Range<usize> = 0..100;
const SIZE: Range<usize> = 124..136;
const TYPE: usize = 156;
/// What an eStargz layer calls its table of contents.
const FILE: &[u8] = b"stargz.index.json";

impl Toc {
    /// Which bytes to fetch: of the layer, or for SOCI of the blob that [`crate::soci::Manifest`] named.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Verifies the bytes that were fetched, and makes the index from them.
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
                // Verified first, read then: so neither holds all of it.
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

/// The one file in the archive that an eStargz layer ends with.
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

/// As much of what a zstd frame holds as is told.
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
