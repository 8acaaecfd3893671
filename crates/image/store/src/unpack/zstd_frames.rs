//! Decompresses Zstandard, and claims the memory of a window before it is allocated (RFC 8878, section 3.1).

use std::io::{self, BufRead, Read};
use std::sync::Arc;

use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation as _, OutBuffer};

use super::memory::{Claim, LayerMemory};

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Magic, descriptor, window, dictionary, content size.
const LONGEST_HEADER: usize = 4 + 1 + 1 + 4 + 8;

/// Returns whether a stream begins with a frame, or with a skippable one, as zstd:chunked layers may.
pub(super) fn is_start(start: &[u8]) -> bool {
    start.starts_with(&MAGIC) || is_skippable(start)
}

fn is_skippable(start: &[u8]) -> bool {
    matches!(start, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

/// Reader of the content of consecutive frames.
pub(super) struct Frames<R> {
    input: R,
    decoder: Decoder<'static>,
    memory: Arc<LayerMemory>,
    claim: Option<Claim>,
    /// The bytes of a frame's header that the decoder has not read yet.
    header: Vec<u8>,
    is_within_frame: bool,
}

impl<R: BufRead> Frames<R> {
    pub(super) fn new(input: R, memory: Arc<LayerMemory>) -> io::Result<Self> {
        Ok(Self {
            input,
            decoder: Decoder::new()?,
            memory,
            claim: None,
            header: Vec::with_capacity(LONGEST_HEADER),
            is_within_frame: false,
        })
    }

    /// Reads the header of the next frame with content and claims memory for its window. Returns false at the end.
    fn enter(&mut self) -> io::Result<bool> {
        loop {
            if self.input.fill_buf()?.is_empty() {
                return Ok(false);
            }
            self.fill_header(4)?;
            if !is_skippable(&self.header) {
                break;
            }
            self.fill_header(8)?;
            let length = self.header[4..].try_into().map_err(io::Error::other)?;
            self.skip(u32::from_le_bytes(length).into())?;
            self.header.clear();
        }
        if self.header != MAGIC {
            let problem = "an unknown frame follows the last zstd frame";
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        self.fill_header(5)?;
        let descriptor = Descriptor(self.header[4]);
        self.fill_header(5 + descriptor.bytes())?;
        let window = descriptor.window(&self.header[5..]);
        // The decoder reuses its largest window for later frames.
        self.memory.enlarge(&mut self.claim, window)?;
        let log = window.max(1).next_power_of_two().ilog2().clamp(10, 31);
        self.decoder.reinit()?;
        self.decoder.set_parameter(DParameter::WindowLogMax(log))?;
        self.is_within_frame = true;
        Ok(true)
    }

    fn fill_header(&mut self, length: usize) -> io::Result<()> {
        let known = self.header.len();
        self.header.resize(length, 0);
        self.input.read_exact(&mut self.header[known..])
    }

    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let skipped = io::copy(&mut self.input.by_ref().take(bytes), &mut io::sink())?;
        if skipped < bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.is_within_frame && !self.enter()? {
                return Ok(0);
            }
            let has_header = !self.header.is_empty();
            let available = if has_header {
                &self.header
            } else {
                self.input.fill_buf()?
            };
            let is_end = available.is_empty();
            let mut from = InBuffer::around(available);
            let mut to = OutBuffer::around(&mut *into);
            let rest = self.decoder.run(&mut from, &mut to)?;
            let (consumed, written) = (from.pos(), to.pos());
            if has_header {
                self.header.drain(..consumed);
            } else {
                self.input.consume(consumed);
            }
            self.is_within_frame = rest > 0;
            if written > 0 {
                return Ok(written);
            }
            if is_end && self.is_within_frame {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// The byte that determines the fields of a frame's header.
#[derive(Clone, Copy)]
struct Descriptor(u8);

impl Descriptor {
    fn is_single_segment(self) -> bool {
        self.0 & 0x20 != 0
    }

    fn dictionary_bytes(self) -> usize {
        [0, 1, 2, 4][usize::from(self.0 & 3)]
    }

    fn content_size_bytes(self) -> usize {
        match self.0 >> 6 {
            0 => usize::from(self.is_single_segment()),
            log => 1 << log,
        }
    }

    /// Returns the total length of the fields.
    fn bytes(self) -> usize {
        usize::from(!self.is_single_segment()) + self.dictionary_bytes() + self.content_size_bytes()
    }

    /// Returns the window size of a frame: the bytes of content that the decoder must keep.
    fn window(self, fields: &[u8]) -> u64 {
        if self.is_single_segment() {
            let size = &fields[self.dictionary_bytes()..];
            let mut bytes = [0; 8];
            bytes[..size.len()].copy_from_slice(size);
            let size_of_two = u64::from(size.len() == 2) * 256;
            return u64::from_le_bytes(bytes).saturating_add(size_of_two);
        }
        let (exponent, mantissa) = (fields[0] >> 3, fields[0] & 7);
        let base = 1_u64 << (10 + exponent);
        base + base / 8 * u64::from(mantissa)
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    fn read(packed: &[u8], buffer: usize) -> io::Result<Vec<u8>> {
        let input = BufReader::with_capacity(buffer, packed);
        let mut content = Vec::new();
        Frames::new(input, LayerMemory::of_client())?.read_to_end(&mut content)?;
        Ok(content)
    }

    fn frame(content: &[u8], window_log: u32, has_size: bool) -> Vec<u8> {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
        encoder.window_log(window_log).unwrap();
        encoder.include_contentsize(has_size).unwrap();
        if has_size {
            let size = Some(content.len() as u64);
            encoder.set_pledged_src_size(size).unwrap();
        }
        io::Write::write_all(&mut encoder, content).unwrap();
        encoder.finish().unwrap()
    }

    fn noise(length: usize) -> Vec<u8> {
        let mut seed = 7_u32;
        let mut next = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 28) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    #[test]
    fn frames_of_all_kinds_are_read_whatever_comes_at_a_time() {
        let mut packed = vec![0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
        let mut content = Vec::new();
        for (length, log, has_size) in [
            (0, 10, false),
            (1, 10, true),
            (255, 12, true),
            (256, 12, true),
            (300, 10, true),
            (70_000, 17, true),
            (70_000, 12, true),
            (300_000, 20, false),
            (3_000_000, 21, true),
        ] {
            let part = noise(length);
            packed.extend(frame(&part, log, has_size));
            packed.extend([0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0]);
            content.extend(part);
        }
        for buffer in [1, 7, 64, 128 << 10] {
            assert!(read(&packed, buffer).unwrap() == content, "{buffer}");
        }
    }

    #[test]
    fn a_stream_that_is_cut_short_or_continues_with_something_else_is_an_error() {
        let packed = frame(&noise(100_000), 17, true);
        for length in [3, 4, 5, 9, packed.len() / 2, packed.len() - 1] {
            let error = read(&packed[..length], 64).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{length}");
        }
        let error = read(&[&packed[..], b"tail of something"].concat(), 64).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_window_that_takes_too_much_memory_is_refused_before_it_is_allocated() {
        let packed = frame(b"small", 27, false);
        let error = read(&packed, 64).unwrap_err().to_string();
        for part in ["134217728", "images.unpack_memory"] {
            assert!(error.contains(part), "{error}");
        }
        // The window of a frame without a window field is as large as its content.
        let header = [&MAGIC[..], &[0xe0], &(1_u64 << 40).to_le_bytes()].concat();
        let error = read(&header, 64).unwrap_err().to_string();
        assert!(error.contains("1099511627776"), "{error}");
    }
}
