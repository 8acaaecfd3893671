//! Reassembly of layers from their files and tar-split records, which Docker and containers/storage keep.
//!
//! A record is a line of JSON: either bytes of the archive, or the name and size of a file whose content follows. The
//! result is identical to the original archive if the files are unchanged; the reader compares its digest.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::bufread::MultiGzDecoder;
use rustix::fs::{Mode, OFlags, open};
use serde::Deserialize;

use crate::regular;

/// Limit of a record: headers with long attributes have some kilobytes.
const LONGEST_LINE: u64 = 16 << 20;
/// Limit of a layer's unpacked records.
const MOST_BYTES: u64 = 4 << 30;

/// One of the records.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Raw bytes.
    Bytes(Vec<u8>),
    /// Content of a file.
    File { name: Vec<u8>, size: u64 },
}

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: u8,
    #[serde(default)]
    name: String,
    #[serde(default)]
    name_raw: Option<String>,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    payload: Option<String>,
}

/// Iterator over the records of a layer.
pub(crate) struct Pieces<R> {
    lines: BufReader<io::Take<MultiGzDecoder<R>>>,
}

impl Pieces<BufReader<std::fs::File>> {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self::of(BufReader::new(regular::open_file(path)?)))
    }
}

impl<R: BufRead> Pieces<R> {
    /// Creates an iterator over compressed records.
    pub(crate) fn of(compressed: R) -> Self {
        let plain = MultiGzDecoder::new(compressed).take(MOST_BYTES);
        Self {
            lines: BufReader::new(plain),
        }
    }

    fn line(&mut self) -> io::Result<Option<Piece>> {
        let mut line = Vec::new();
        loop {
            line.clear();
            (&mut self.lines)
                .take(LONGEST_LINE)
                .read_until(b'\n', &mut line)?;
            if line.is_empty() {
                return match self.lines.get_ref().limit() {
                    0 => Err(invalid("its records are too large")),
                    _ => Ok(None),
                };
            }
            if !line.trim_ascii().is_empty() {
                break;
            }
        }
        let line: Line = serde_json::from_slice(&line).map_err(invalid)?;
        let decode = |text: &str| STANDARD.decode(text).map_err(invalid);
        match line.kind {
            1 => Ok(Some(Piece::File {
                name: match &line.name_raw {
                    Some(raw) => decode(raw)?,
                    None => line.name.into_bytes(),
                },
                size: line.size,
            })),
            2 => Ok(Some(Piece::Bytes(decode(
                line.payload.as_deref().unwrap_or_default(),
            )?))),
            kind => Err(invalid(format!("a record has the unknown type {kind}"))),
        }
    }
}

impl<R: BufRead> Iterator for Pieces<R> {
    type Item = io::Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        self.line().transpose()
    }
}

/// Returns the length of the archive.
pub(crate) fn length(pieces: impl Iterator<Item = io::Result<Piece>>) -> io::Result<u64> {
    let mut length: u64 = 0;
    for piece in pieces {
        let more = match piece? {
            Piece::Bytes(bytes) => bytes.len() as u64,
            Piece::File { size, .. } => size,
        };
        length = length
            .checked_add(more)
            .ok_or_else(|| invalid("its files are too large"))?;
    }
    Ok(length)
}

/// Writes the archive with the files in this directory.
pub(crate) fn replay(
    pieces: impl Iterator<Item = io::Result<Piece>>,
    dir: &Path,
    out: &mut dyn Write,
) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open(dir, flags, Mode::empty())
        .map_err(|error| of(dir.display(), &io::Error::from(error)))?;
    for piece in pieces {
        match piece? {
            Piece::Bytes(bytes) => out.write_all(&bytes)?,
            Piece::File { size: 0, .. } => {}
            Piece::File { name, size } => {
                let shown = String::from_utf8_lossy(&name).into_owned();
                let file = regular::open_beneath(root.as_fd(), &name);
                let file = file.map_err(|error| of(&shown, &error))?;
                let copied = io::copy(&mut file.take(size), out)?;
                if copied != size {
                    let message = format!("{shown} has {copied} bytes instead of {size}");
                    return Err(invalid(message));
                }
            }
        }
    }
    Ok(())
}

fn of(what: impl std::fmt::Display, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

fn invalid(why: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_string())
}
