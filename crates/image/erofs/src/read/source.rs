//! Where an image is.

use std::fs::File;
use std::io::{self, Error, ErrorKind};
use std::os::unix::fs::FileExt as _;

/// Bytes of an image, read from any place.
pub trait Source {
    /// How many there are.
    fn length(&self) -> io::Result<u64>;

    /// Fills the buffer with those from this place on; an error where they end before.
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
