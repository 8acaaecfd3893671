//! A bound on what one entry may be.
//!
//! An entry is read as a whole before it is looked at, and takes many times the memory of its text.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

/// Bytes of text for one entry, or for all that is no entry: many times what the largest honest one has.
const MOST: usize = 1 << 20;

/// How many bytes more may be read.
#[derive(Clone, Default)]
pub(super) struct Meter(Rc<Cell<usize>>);

impl Meter {
    /// As many as for one entry.
    pub(super) fn reset(&self) {
        self.0.set(MOST);
    }
}

/// Something to read from that ends with an error where too much is read.
pub(super) struct Metered<R> {
    pub(super) from: R,
    pub(super) meter: Meter,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let left = self.meter.0.get();
        if left == 0 {
            return Err(io::Error::other("an entry is larger than allowed"));
        }
        let room_left = room.len().min(left);
        let read = self.from.read(&mut room[..room_left])?;
        self.meter.0.set(left - read);
        Ok(read)
    }
}
