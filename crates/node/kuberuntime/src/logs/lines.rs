//! Reads the lines of a log file, forwards or backwards. Both hold one line in memory and take time
//! in proportion to the file's size.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;

/// How many bytes are read at once.
const BLOCK: usize = 64 * 1024;
/// Length limit of a line in bytes: no runtime writes longer ones, so they are skipped.
const LONGEST: usize = 4 << 20;

/// Reads lines from the current position of a file.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The beginning of an incomplete line.
    begun: Vec<u8>,
    is_too_long: bool,
}

impl Lines {
    /// Reads to the end of the file and passes each complete line to `each`; returns whether it
    /// read anything. It calls `go_on` before each read.
    pub(super) fn read(
        &mut self,
        from: &mut dyn Read,
        go_on: &dyn Fn() -> io::Result<()>,
        each: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<bool> {
        let mut any = false;
        let mut block = vec![0; BLOCK];
        loop {
            go_on()?;
            let length = from.read(&mut block)?;
            if length == 0 {
                return Ok(any);
            }
            any = true;
            let mut rest = &block[..length];
            while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
                let (line, next) = rest.split_at(at + 1);
                rest = next;
                if self.begun.is_empty() && !self.is_too_long {
                    each(line)?;
                    continue;
                }
                self.add(line);
                if let Some(line) = self.rest() {
                    each(&line)?;
                }
            }
            self.add(rest);
        }
    }

    /// Takes the text after the last newline.
    pub(super) fn rest(&mut self) -> Option<Vec<u8>> {
        let line = std::mem::take(&mut self.begun);
        let is_too_long = std::mem::take(&mut self.is_too_long);
        (!is_too_long && !line.is_empty()).then_some(line)
    }

    fn add(&mut self, bytes: &[u8]) {
        self.is_too_long |= self.begun.len() + bytes.len() > LONGEST;
        if self.is_too_long {
            self.begun = Vec::new();
        } else {
            self.begun.extend_from_slice(bytes);
        }
    }
}

/// The position where the last lines of a file begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TailStart {
    pub(super) offset: u64,
    /// How many of the wanted lines this file lacks.
    pub(super) missing: u64,
}

/// Finds where the last `wanted` lines begin; only those that `counts` accepts count. It calls
/// `go_on` before each read.
pub(super) fn tail_start(
    file: &File,
    wanted: u64,
    go_on: &dyn Fn() -> io::Result<()>,
    counts: &mut dyn FnMut(&[u8]) -> bool,
) -> io::Result<TailStart> {
    let end = file.metadata()?.len();
    if wanted == 0 {
        return Ok(TailStart {
            offset: end,
            missing: 0,
        });
    }
    let mut found = 0;
    let mut line = Ending::default();
    // The start of the line found last.
    let mut begin = end;
    let mut position = end;
    let mut block = vec![0; BLOCK];
    while position > 0 {
        go_on()?;
        let length = position.min(BLOCK as u64);
        position -= length;
        let block = &mut block[..length as usize];
        file.read_exact_at(block, position)?;
        let (mut until, mut unseen) = (block.len(), block.len());
        while let Some(at) = block[..unseen].iter().rposition(|byte| *byte == b'\n') {
            found += u64::from(line.with(&block[at + 1..until], counts));
            if found > wanted {
                return Ok(TailStart {
                    offset: begin,
                    missing: 0,
                });
            }
            begin = position + at as u64 + 1;
            (until, unseen) = (at + 1, at);
        }
        line.put_before(&block[..until]);
    }
    found += u64::from(line.with(&[], counts));
    Ok(TailStart {
        offset: if found > wanted { begin } else { 0 },
        missing: wanted.saturating_sub(found),
    })
}

/// The end of a line whose beginning has not been read yet.
#[derive(Default)]
struct Ending {
    /// Pieces of the line, the last one first.
    pieces: Vec<Vec<u8>>,
    length: usize,
}

impl Ending {
    fn put_before(&mut self, piece: &[u8]) {
        self.length += piece.len();
        if self.length > LONGEST {
            self.pieces = Vec::new();
        } else if !piece.is_empty() {
            self.pieces.push(piece.to_vec());
        }
    }

    /// Completes the line with its first bytes and returns whether it counts. Resets for the next
    /// line.
    fn with(&mut self, begin: &[u8], counts: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        self.put_before(begin);
        let length = std::mem::take(&mut self.length);
        let pieces = std::mem::take(&mut self.pieces);
        // After the last newline there is no further line.
        if length == 0 || length > LONGEST {
            return false;
        }
        match &*pieces {
            [one] => counts(one),
            pieces => {
                let pieces: Vec<&[u8]> = pieces.iter().rev().map(Vec::as_slice).collect();
                counts(&pieces.concat())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn forwards(text: &[u8]) -> Vec<usize> {
        let mut lengths = Vec::new();
        let mut lines = Lines::default();
        let mut each = |line: &[u8]| {
            lengths.push(line.len());
            Ok(())
        };
        let mut text = Cursor::new(text);
        lines.read(&mut text, &|| Ok(()), &mut each).unwrap();
        lengths.extend(lines.rest().map(|line| line.len()));
        lengths
    }

    fn backwards(text: &[u8], wanted: u64) -> (TailStart, Vec<usize>) {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, text).unwrap();
        let mut lengths = Vec::new();
        let mut counts = |line: &[u8]| {
            lengths.push(line.len());
            true
        };
        let start = tail_start(&file, wanted, &|| Ok(()), &mut counts).unwrap();
        (start, lengths)
    }

    #[test]
    fn both_ways_have_the_same_lines() {
        let mut text = Vec::new();
        // Lengths around the block size, empty, and over the limit.
        for length in [
            0,
            1,
            BLOCK - 3,
            BLOCK,
            3 * BLOCK + 1,
            LONGEST,
            0,
            5,
            BLOCK - 1,
        ] {
            text.extend(std::iter::repeat_n(b'x', length));
            text.push(b'\n');
        }
        for end in [&b""[..], b"end", b"\n"] {
            let text = [&text, end].concat();
            let (start, mut back) = backwards(&text, 99);
            back.reverse();
            assert_eq!(back, forwards(&text));
            assert_eq!(start.offset, 0);
            assert_eq!(start.missing, 99 - back.len() as u64);
            for wanted in 0..back.len() {
                let (start, _) = backwards(&text, wanted as u64);
                let tail = forwards(&text[start.offset as usize..]);
                let tail = &tail[tail.len().saturating_sub(wanted)..];
                assert_eq!(tail, &back[back.len() - wanted..], "{wanted}");
                assert_eq!(start.missing, 0);
            }
        }
        assert_eq!(backwards(b"", 1).0.missing, 1);
    }
}
