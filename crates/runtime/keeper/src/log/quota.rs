//! Limits of a container log: bytes per second and bytes per file.

use memchr::memrchr;

/// The limit of bytes per second.
#[derive(Debug, Default)]
pub(super) struct Rate {
    /// Zero for no limit.
    pub(super) limit: usize,
    /// When the second began, in nanoseconds.
    begun: u64,
    used: usize,
}

impl Rate {
    /// Returns how many bytes of these whole lines fit. After the first line that does not fit, all are dropped until
    /// the second is over, so that there is one gap in it.
    pub(super) fn admit(&mut self, lines: &[u8], now: u64) -> usize {
        const SECOND: u64 = 1_000_000_000;
        if self.limit == 0 {
            return lines.len();
        }
        if now.saturating_sub(self.begun) >= SECOND || now < self.begun {
            (self.begun, self.used) = (now, 0);
        }
        let room = self.limit - self.used;
        if lines.len() <= room {
            self.used += lines.len();
            return lines.len();
        }
        self.used = self.limit;
        whole(&lines[..room])
    }
}

/// The limit of bytes in one file.
#[derive(Debug, Default)]
pub(super) struct Size {
    /// Zero for no limit.
    pub(super) limit: u64,
    /// Bytes in the file and in pending writes.
    used: u64,
    /// Whether a line did not fit.
    full: bool,
    /// Whether the file contains the note that it is full.
    noted: bool,
    /// Bytes in the old file while a new one is opened.
    before: u64,
}

impl Size {
    /// Returns how many bytes of these whole lines fit. After the first line that does not fit, all are dropped until a
    /// new file is opened, so that there is one gap, at the end.
    pub(super) fn admit(&mut self, lines: &[u8]) -> usize {
        let room = self.limit.saturating_sub(self.used);
        let kept = if self.limit == 0 || lines.len() as u64 <= room && !self.full {
            lines.len()
        } else if self.full {
            0
        } else {
            self.full = true;
            whole(&lines[..room as usize])
        };
        self.used += kept as u64;
        kept
    }

    /// Returns whether the file contains the note that it is full; marks it as noted.
    pub(super) fn noted(&mut self) -> bool {
        std::mem::replace(&mut self.noted, true)
    }

    /// Adds the bytes that the file already contains.
    pub(super) fn found(&mut self, bytes: u64) {
        self.used += bytes;
    }

    /// Subtracts admitted bytes that were not written to the file.
    pub(super) fn give_back(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes as u64);
        self.full = self.full && self.used >= self.limit;
    }

    /// Begins counting for a new file.
    pub(super) fn turn_over(&mut self) {
        self.before = std::mem::take(&mut self.used);
        (self.full, self.noted) = (false, false);
    }

    /// Returns to the old file, because the new one cannot be opened.
    pub(super) fn turn_back(&mut self) {
        self.used += std::mem::take(&mut self.before);
    }
}

/// Returns the length of the whole lines at the start of this buffer.
fn whole(lines: &[u8]) -> usize {
    memrchr(b'\n', lines).map_or(0, |end| end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_rate_are_dropped_until_the_second_is_over() {
        let mut rate = Rate {
            limit: 10,
            ..Rate::default()
        };
        let begun = 5_000_000_000;
        assert_eq!(rate.admit(b"1234\n", begun), 5);
        assert_eq!(rate.admit(b"12\n12345\n", begun + 1), 3);
        assert_eq!(rate.admit(b"\n", begun + 2), 0, "it would hide the gap");
        assert_eq!(rate.admit(b"123456789\n", begun + 1_000_000_000), 10);
        assert_eq!(Rate::default().admit(b"any\n", 0), 4);
    }

    #[test]
    fn lines_beyond_the_size_are_dropped_until_there_is_another_file() {
        let mut size = Size {
            limit: 10,
            ..Size::default()
        };
        size.found(5);
        assert_eq!(size.admit(b"12\n12345\n"), 3);
        assert_eq!(size.admit(b"\n"), 0, "it would hide the gap");
        size.turn_over();
        assert_eq!(size.admit(b"123456\n"), 7);
        size.turn_back();
        assert_eq!(size.admit(b"\n"), 0, "the old file is full");
        size.turn_over();
        assert_eq!(size.admit(b"123456789\n"), 10);
        assert_eq!(Size::default().admit(b"any\n"), 4);
    }

    #[test]
    fn what_a_full_disk_did_not_take_does_not_count() {
        let mut size = Size {
            limit: 10,
            ..Size::default()
        };
        assert_eq!(size.admit(b"12345678\n12345678\n"), 9);
        size.give_back(9);
        assert_eq!(size.admit(b"12345678\n"), 9);
    }
}
