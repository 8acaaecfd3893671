//! Source of an image's bytes.

use std::fs::File;
use std::io::{self, Error, ErrorKind};
use std::os::unix::fs::FileExt as _;

/// Random access to the bytes of an image.
pub trait Source {
    /// Returns the number of bytes.
    fn length(&self) -> io::Result<u64>;

    /// Fills the buffer from an offset; returns an error if the source is too short.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

impl Source for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }
}

impl Source for Vec<u8> {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let found = self
            .get(from..)
            .and_then(|bytes| bytes.get(..buffer.len()))
            .ok_or_else(|| Error::from(ErrorKind::UnexpectedEof))?;
        buffer.copy_from_slice(found);
        Ok(())
    }
}

impl<S: Source + ?Sized> Source for &S {
    fn length(&self) -> io::Result<u64> {
        (**self).length()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        (**self).read_at(buffer, offset)
    }
}
