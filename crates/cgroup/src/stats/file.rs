//! A file of the kernel that is read anew each time.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::{Errno, pread};

use crate::Error;

/// No file of numbers is larger.
const MAX: usize = 1 << 20;

/// An open file with its path, for messages.
#[derive(Debug)]
pub(super) struct StatFile {
    file: File,
    path: PathBuf,
}

impl StatFile {
    /// Opens a file of a cgroup; none if it is not there.
    pub(super) fn open(directory: Option<&Path>, name: &str) -> Result<Option<Self>, Error> {
        let Some(directory) = directory else {
            return Ok(None);
        };
        let path = directory.join(name);
        match File::open(&path) {
            Ok(file) => Ok(Some(Self { file, path })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            // Files of pressure are there but closed where the kernel does not keep the numbers.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
            Err(error) => Err(Error::io("opening", path)(error)),
        }
    }

    /// Reads all of it.
    pub(super) fn text<'a>(&self, buffer: &'a mut Vec<u8>) -> Result<&'a str, Error> {
        let failed = |error: Errno| Error::io("reading", &self.path)(error.into());
        buffer.clear();
        let mut chunk = [0u8; 4096];
        loop {
            let read = match pread(&self.file, &mut chunk, buffer.len() as u64) {
                Err(Errno::INTR) => continue,
                read => read.map_err(failed)?,
            };
            if read == 0 {
                break;
            }
            buffer.extend_from_slice(&chunk[..read]);
            if buffer.len() > MAX {
                return Err(failed(Errno::FBIG));
            }
        }
        std::str::from_utf8(buffer).map_err(|_| failed(Errno::ILSEQ))
    }

    /// Reads a single number; none for `max`.
    pub(super) fn number(&self, buffer: &mut Vec<u8>) -> Result<Option<u64>, Error> {
        let text = self.text(buffer)?.trim();
        if text == "max" {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|_| Error::Format {
            path: self.path.clone(),
            text: text.to_owned(),
            expected: "a number or \"max\"",
        })
    }
}

/// The number after a name in lines of `name number`; 0 if the kernel does not have it.
pub(super) fn field(text: &str, name: &str) -> u64 {
    optional_field(text, name).unwrap_or(0)
}

/// The number after a name in lines of `name number`.
pub(super) fn optional_field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        line.strip_prefix(name)?
            .strip_prefix(' ')?
            .trim()
            .parse()
            .ok()
    })
}
