//! Size limit of a single entry.
//!
//! An entry is parsed as a whole before it is checked, and takes many times the memory of its text.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

/// Maximum text size of an entry, and of everything outside of entries: many times that of the largest real entry.
const MOST: usize = 1 << 20;

/// The number of bytes that may still be read.
#[derive(Clone, Default)]
pub(super) struct Meter(Rc<Cell<usize>>);

impl Meter {
    /// Restores the limit for the next entry.
    pub(super) fn reset(&self) {
        self.0.set(MOST);
    }
}

/// A reader that returns an error if the limit is exceeded.
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
