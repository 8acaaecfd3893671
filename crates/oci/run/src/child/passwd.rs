//! Reads `HOME` from the container's `/etc/passwd`.

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

use crate::plan::ProcessPlan;

/// Maximum number of bytes that are read.
const LIMIT: usize = 1 << 20;

/// Adds `HOME` to the environment; `/` if it is not found.
pub(super) fn fill(process: &mut ProcessPlan) {
    let uid = process.uid.as_raw();
    let mut home = [0u8; 1024];
    let length = find(uid, &mut home).unwrap_or(0);
    let home = if length == 0 {
        b"/".as_slice()
    } else {
        &home[..length]
    };
    process.env.fill_room(b"HOME=", home);
}

/// Returns the sixth field of the user's line.
fn find(uid: u32, home: &mut [u8]) -> Option<usize> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = openat(CWD, c"/etc/passwd", flags, Mode::empty()).ok()?;
    if FileType::from_raw_mode(fstat(&file).ok()?.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut chunk = [0u8; 4096];
    let mut line = Line::default();
    let mut seen = 0;
    loop {
        let count = rustix::io::read(&file, &mut chunk).ok()?;
        for &byte in &chunk[..count] {
            if let Some(length) = line.take(byte, uid, home) {
                return Some(length);
            }
        }
        seen += count;
        if count == 0 || seen > LIMIT {
            return line.take(b'\n', uid, home);
        }
    }
}

/// A line as far as it was read.
#[derive(Default)]
struct Line {
    field: u32,
    uid: Option<u64>,
    length: usize,
    too_long: bool,
}

impl Line {
    /// Reads a byte; returns the length of the directory when the user's line is complete.
    fn take(&mut self, byte: u8, uid: u32, home: &mut [u8]) -> Option<usize> {
        match (byte, self.field) {
            (b'\n', field) => {
                let found = field >= 5 && self.uid == Some(u64::from(uid)) && !self.too_long;
                let length = self.length;
                *self = Self::default();
                return found.then_some(length);
            }
            (b':', _) => self.field += 1,
            (b'0'..=b'9', 2) => {
                let number = self.uid.unwrap_or(0).saturating_mul(10);
                self.uid = Some(number.saturating_add(u64::from(byte - b'0')));
            }
            (_, 2) => self.uid = Some(u64::MAX),
            (_, 5) => match home.get_mut(self.length) {
                Some(place) => {
                    *place = byte;
                    self.length += 1;
                }
                None => self.too_long = true,
            },
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_user_says_it() {
        let passwd = b"root:x:0:0:root:/root:/bin/sh\nx:y:7a:0::/no:\nu:x:7:7::/home/u\n";
        for (uid, home) in [(0, Some("/root")), (7, Some("/home/u")), (8, None)] {
            let mut room = [0; 64];
            let mut line = Line::default();
            let found = passwd
                .iter()
                .find_map(|&byte| line.take(byte, uid, &mut room));
            assert_eq!(
                found.map(|length| &room[..length]),
                home.map(str::as_bytes),
                "{uid}"
            );
        }
    }
}
