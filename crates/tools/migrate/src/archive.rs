//! A tar archive that is written as a stream: each file is read when it is written.

use std::collections::{HashMap, HashSet};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::regular;
use crate::tar_split::{self, Pieces};

/// Size of the read buffer.
const BUFFER: usize = 128 << 10;

/// Block size of tar.
const BLOCK: u64 = 512;

/// An archive with its entries in order.
#[derive(Debug, Default)]
pub struct Archive {
    files: Vec<(String, Content)>,
    names: HashSet<String>,
}

/// Lengths of layer archives by their records. Layers of a common base image are read once.
#[derive(Debug, Default)]
pub(crate) struct Lengths(Mutex<HashMap<PathBuf, u64>>);

impl Lengths {
    fn of(&self, records: &Path) -> io::Result<u64> {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(length) = known().get(records) {
            return Ok(*length);
        }
        let length = tar_split::length(Pieces::open(records)?)?;
        known().insert(records.to_owned(), length);
        Ok(length)
    }
}

#[derive(Debug)]
enum Content {
    Bytes(Vec<u8>),
    File {
        path: PathBuf,
        size: u64,
    },
    Layer {
        records: PathBuf,
        dir: PathBuf,
        size: u64,
    },
}

impl Archive {
    /// Adds a file with these bytes.
    pub(crate) fn bytes(&mut self, name: impl Into<String>, bytes: Vec<u8>) {
        self.add(name.into(), Content::Bytes(bytes));
    }

    /// Adds an existing file.
    pub(crate) fn file(&mut self, name: impl Into<String>, path: PathBuf, size: u64) {
        self.add(name.into(), Content::File { path, size });
    }

    /// Adds a layer that is reassembled from its tar-split records and its files.
    pub(crate) fn layer(
        &mut self,
        name: impl Into<String>,
        records: PathBuf,
        dir: PathBuf,
        lengths: &Lengths,
    ) -> io::Result<()> {
        let size = lengths.of(&records)?;
        self.add(name.into(), Content::Layer { records, dir, size });
        Ok(())
    }

    fn add(&mut self, name: String, content: Content) {
        self.names.insert(name.clone());
        self.files.push((name, content));
    }

    /// Returns whether the archive has a file of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Returns the total size of the files.
    pub fn bytes_of_files(&self) -> u64 {
        let sizes = self.files.iter().map(|(_, content)| content.size());
        sizes.fold(0, u64::saturating_add)
    }

    /// Returns the bytes that are held in memory.
    #[cfg(test)]
    pub(crate) fn bytes_held(&self) -> usize {
        let held = self.files.iter().map(|(_, content)| match content {
            Content::Bytes(bytes) => bytes.len(),
            _ => 0,
        });
        held.sum()
    }

    /// Writes the archive. After an error it lacks the end marker, so that readers detect it as incomplete.
    pub fn write_to(&self, out: impl Write) -> io::Result<()> {
        let mut out = BufWriter::with_capacity(BUFFER, out);
        for (name, content) in &self.files {
            let size = content.size();
            let mut header = tar::Header::new_gnu();
            header.set_path(name)?;
            header.set_mode(0o644);
            header.set_size(size);
            header.set_cksum();
            out.write_all(header.as_bytes())?;
            let mut out = Counted {
                out: &mut out,
                written: 0,
            };
            let (path, copied) = match content {
                Content::Bytes(bytes) => (Path::new(name), out.write_all(bytes)),
                Content::File { path, .. } => (path.as_path(), copy(path, size, &mut out)),
                Content::Layer { records, dir, .. } => {
                    let replayed = Pieces::open(records)
                        .and_then(|pieces| tar_split::replay(pieces, dir, &mut out));
                    (records.as_path(), replayed)
                }
            };
            copied.map_err(|error| of(path, &error))?;
            if out.written != size {
                return Err(of(
                    path,
                    &io::Error::other("the file changed while it was read"),
                ));
            }
            let padding = size.next_multiple_of(BLOCK) - size;
            out.write_all(&[0; BLOCK as usize][..padding as usize])?;
        }
        out.write_all(&[0; 2 * BLOCK as usize])?;
        out.flush()
    }
}

fn copy(path: &Path, size: u64, out: &mut dyn Write) -> io::Result<()> {
    let file = regular::open_file(path)?;
    io::copy(&mut file.take(size), out).map(drop)
}

impl Content {
    fn size(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { size, .. } | Self::Layer { size, .. } => *size,
        }
    }
}

struct Counted<W> {
    out: W,
    written: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn of(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
