//! The content of a file in an archive, without its holes, in GNU's sparse format 1.0. Readers in Go, GNU
//! tar and this project support it.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// Limit of parts; a file with more is written with its later holes as zeros.
const MOST_PARTS: usize = 16_384;
const BLOCK: usize = 512;

/// The content of a file.
pub(super) struct Content<'a> {
    file: &'a File,
    size: u64,
    parts: Vec<Range<u64>>,
    /// The list of the parts, which is written before them; empty if the file has no holes.
    pub(super) map: Vec<u8>,
}

impl<'a> Content<'a> {
    pub(super) fn of(file: &'a File) -> io::Result<Self> {
        let size = file.metadata()?.len();
        let parts = parts(file, size)?;
        let mut content = Self {
            file,
            size,
            parts,
            map: Vec::new(),
        };
        if content.stored() < size {
            content.map = map(&content.parts);
        }
        Ok(content)
    }

    /// Returns the total size of the parts in bytes.
    pub(super) fn stored(&self) -> u64 {
        self.parts.iter().map(|part| part.end - part.start).sum()
    }

    /// Returns the PAX records that describe the holes.
    pub(super) fn records(&self, path: &Path) -> Vec<(String, Vec<u8>)> {
        if self.map.is_empty() {
            return Vec::new();
        }
        let record = |name: &str, value: &[u8]| (format!("GNU.sparse.{name}"), value.to_vec());
        vec![
            record("major", b"1"),
            record("minor", b"0"),
            record("name", path.as_os_str().as_bytes()),
            record("realsize", self.size.to_string().as_bytes()),
        ]
    }

    /// Reads the parts. A file that has shrunk meanwhile is padded with zeros: else it would break the archive.
    pub(super) fn reader(&self) -> impl Read + '_ {
        Parts {
            file: self.file,
            parts: self.parts.clone().into_iter(),
            part: 0..0,
        }
    }
}

fn parts(file: &File, size: u64) -> io::Result<Vec<Range<u64>>> {
    let mut parts: Vec<Range<u64>> = Vec::new();
    let mut at = 0;
    while at < size {
        let (begin, end) = match seek(file, SeekFrom::Data(at)) {
            // Only a hole is left.
            Err(Errno::NXIO) => break,
            // The file system does not support it.
            Err(Errno::INVAL) => (at, size),
            _ if parts.len() == MOST_PARTS => (at, size),
            begin => {
                let begin = begin?;
                (begin, seek(file, SeekFrom::Hole(begin))?.min(size))
            }
        };
        if begin >= end {
            break;
        }
        parts.push(begin..end);
        at = end;
    }
    Ok(parts)
}

fn map(parts: &[Range<u64>]) -> Vec<u8> {
    let lines = parts
        .iter()
        .map(|part| format!("{}\n{}\n", part.start, part.end - part.start));
    let mut map = format!("{}\n", parts.len()).into_bytes();
    map.extend(lines.flat_map(String::into_bytes));
    map.resize(map.len().next_multiple_of(BLOCK), 0);
    map
}

struct Parts<'a> {
    file: &'a File,
    parts: std::vec::IntoIter<Range<u64>>,
    part: Range<u64>,
}

impl Read for Parts<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.part.is_empty() {
            let Some(next) = self.parts.next() else {
                return Ok(0);
            };
            self.part = next;
        }
        let left = usize::try_from(self.part.end - self.part.start).unwrap_or(usize::MAX);
        let wanted = into.len().min(left);
        let into = &mut into[..wanted];
        let read = match self.file.read_at(into, self.part.start)? {
            0 => {
                into.fill(0);
                wanted
            }
            read => read,
        };
        self.part.start += read as u64;
        Ok(read)
    }
}
