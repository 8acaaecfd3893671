//! Splits a container's output into lines of its log.

use memchr::memchr;

use crate::clock::Stamp;
use crate::reactor::Stream;

/// The longest content of a line, as in other container runtimes.
pub(crate) const LINE_MAX: usize = 16 * 1024;

/// Cuts one output into lines: `<time> <stream> <F or P> <content>`. A line longer than the limit becomes several, all
/// but the last marked `P`. An unfinished last line is marked `P` too.
#[derive(Debug)]
pub(crate) struct Lines {
    stream: &'static [u8],
    max: usize,
    partial: Vec<u8>,
}

impl Lines {
    pub(crate) fn new(stream: Stream, max: usize) -> Self {
        Self {
            stream: match stream {
                Stream::Out => b" stdout ",
                Stream::Err => b" stderr ",
            },
            max: if max == 0 { LINE_MAX } else { max },
            partial: Vec::new(),
        }
    }

    /// Adds output read at the time `ns`; appends the lines that it completes to `out`.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], ns: u64, stamp: &mut Stamp, out: &mut Vec<u8>) {
        while !bytes.is_empty() {
            let room = self.max - self.partial.len();
            // One byte more than fits, since a line end right behind a full line completes it.
            let window = &bytes[..bytes.len().min(room + 1)];
            if let Some(end) = memchr(b'\n', window) {
                self.line(b'F', &bytes[..end], ns, stamp, out);
                bytes = &bytes[end + 1..];
            } else if bytes.len() > room {
                self.line(b'P', &bytes[..room], ns, stamp, out);
                bytes = &bytes[room..];
            } else {
                self.partial.extend_from_slice(bytes);
                return;
            }
        }
    }

    /// Ends the output: an unfinished last line is written as a partial line.
    pub(crate) fn finish(&mut self, ns: u64, stamp: &mut Stamp, out: &mut Vec<u8>) {
        if !self.partial.is_empty() {
            self.line(b'P', b"", ns, stamp, out);
        }
    }

    fn line(&mut self, tag: u8, rest: &[u8], ns: u64, stamp: &mut Stamp, out: &mut Vec<u8>) {
        stamp.write(ns, out);
        out.extend_from_slice(self.stream);
        out.extend_from_slice(&[tag, b' ']);
        out.extend_from_slice(&self.partial);
        out.extend_from_slice(rest);
        out.push(b'\n');
        self.partial = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::Lines;
    use crate::clock::Stamp;
    use crate::reactor::Stream;

    /// Returns the log's content after `chunks`, without times.
    fn logged(max: usize, chunks: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut lines = Lines::new(Stream::Out, max);
        let (mut stamp, mut out) = (Stamp::default(), Vec::new());
        for chunk in chunks {
            lines.feed(chunk, 0, &mut stamp, &mut out);
        }
        lines.finish(0, &mut stamp, &mut out);
        let time = b"1970-01-01T00:00:00.000000000Z stdout ".len();
        out.split_inclusive(|&byte| byte == b'\n')
            .map(|line| line[time..].to_vec())
            .collect()
    }

    #[test]
    fn lines_are_cut_the_same_whatever_the_chunks() {
        let output = b"ab\n\nabcd\nabcde\nabcdefghijk\0\xff\nx";
        let expected: [&[u8]; 9] = [
            b"F ab\n",
            b"F \n",
            b"F abcd\n",
            b"P abcd\n",
            b"F e\n",
            b"P abcd\n",
            b"P efgh\n",
            b"P ijk\0\n",
            b"F \xff\n",
        ];
        for size in 1..=output.len() {
            let chunks: Vec<&[u8]> = output.chunks(size).collect();
            let lines = logged(4, &chunks);
            assert_eq!(lines[..9], expected, "in chunks of {size}");
            assert_eq!(lines[9..], [b"P x\n"], "in chunks of {size}");
        }
    }
}
