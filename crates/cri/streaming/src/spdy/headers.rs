//! SPDY header blocks: names and values, in one zlib stream per direction.

use flate2::{Decompress, FlushDecompress, Status};

use super::dictionary::DICTIONARY;
use super::frame::FrameError;

/// Maximum size of an inflated header block.
const MAX_BLOCK: usize = 32 * 1024;
/// Maximum number of pairs in a block.
const MAX_PAIRS: usize = 100;

/// The headers of a stream. Names are lower case on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Headers {
    pairs: Vec<(String, String)>,
}

impl Headers {
    pub(crate) fn new(pairs: &[(&str, &str)]) -> Self {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), (*value).to_owned()))
            .collect();
        Self { pairs }
    }

    /// Returns the first value of the header `name`, ignoring case.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.pairs
            .iter()
            .find(|(candidate, _)| candidate.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.split('\0').next().unwrap_or_default())
    }

    fn encode(&self) -> Vec<u8> {
        let mut block = (self.pairs.len() as u32).to_be_bytes().to_vec();
        for (name, value) in &self.pairs {
            for text in [name, value] {
                block.extend((text.len() as u32).to_be_bytes());
                block.extend(text.as_bytes());
            }
        }
        block
    }

    fn decode(mut block: &[u8]) -> Result<Self, FrameError> {
        let count = take_length(&mut block)?;
        if count > MAX_PAIRS {
            return Err(FrameError::HeadersTooLarge);
        }
        let mut pairs = Vec::with_capacity(count);
        for _ in 0..count {
            let name = take_text(&mut block)?;
            let value = take_text(&mut block)?;
            pairs.push((name, value));
        }
        Ok(Self { pairs })
    }
}

fn take_length(block: &mut &[u8]) -> Result<usize, FrameError> {
    let (length, rest) = block.split_first_chunk().ok_or(FrameError::BadHeaders)?;
    *block = rest;
    Ok(u32::from_be_bytes(*length) as usize)
}

fn take_text(block: &mut &[u8]) -> Result<String, FrameError> {
    let length = take_length(block)?;
    let (text, rest) = block
        .split_at_checked(length)
        .ok_or(FrameError::BadHeaders)?;
    *block = rest;
    String::from_utf8(text.to_vec()).map_err(|_| FrameError::BadHeaders)
}

/// Encodes header blocks in the order in which they are sent, as stored zlib blocks. Compression would take a quarter
/// of a megabyte per connection, and the headers sent here are a word or two.
#[derive(Default)]
pub(crate) struct Deflater {
    has_begun: bool,
}

/// The zlib header: a window of 32 KiB and a preset dictionary (RFC 1950, section 2.2).
const ZLIB_HEAD: [u8; 2] = [0x78, 0x20];
/// The dictionary's Adler-32, which identifies it.
const DICTIONARY_ID: [u8; 4] = 0xe3c6_a7c2_u32.to_be_bytes();
/// The header of a stored block that is not the last one. The length and its inverse follow (RFC 1951, section 3.2.4).
const STORED: u8 = 0;
/// An empty stored block, which makes decoders flush all previous output.
const FLUSHED: [u8; 5] = [STORED, 0, 0, 0xff, 0xff];

impl Deflater {
    /// Appends a header block to `out`.
    pub(crate) fn deflate(&mut self, headers: &Headers, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.has_begun, true) {
            out.extend(ZLIB_HEAD);
            out.extend(DICTIONARY_ID);
        }
        for part in headers.encode().chunks(usize::from(u16::MAX)) {
            let length = part.len() as u16;
            out.push(STORED);
            out.extend(length.to_le_bytes());
            out.extend((!length).to_le_bytes());
            out.extend(part);
        }
        out.extend(FLUSHED);
    }
}

/// Inflates the peer's header blocks in the order in which they arrive.
pub(crate) struct Inflater {
    decompress: Decompress,
    block: Vec<u8>,
}

impl Inflater {
    pub(crate) fn new() -> Self {
        Self {
            decompress: Decompress::new(true),
            block: Vec::new(),
        }
    }

    pub(crate) fn inflate(&mut self, compressed: &[u8]) -> Result<Headers, FrameError> {
        let mut block = std::mem::take(&mut self.block);
        block.clear();
        let result = self.inflate_into(compressed, &mut block);
        let headers = result.and_then(|()| Headers::decode(&block));
        self.block = block;
        headers
    }

    fn inflate_into(&mut self, compressed: &[u8], block: &mut Vec<u8>) -> Result<(), FrameError> {
        let mut rest = compressed;
        loop {
            if block.len() >= MAX_BLOCK {
                return Err(FrameError::HeadersTooLarge);
            }
            block.reserve(1024);
            let before = self.decompress.total_in();
            let result = self
                .decompress
                .decompress_vec(rest, block, FlushDecompress::Sync);
            rest = &rest[(self.decompress.total_in() - before) as usize..];
            match result {
                Ok(Status::StreamEnd) => return Err(FrameError::BadHeaders),
                Ok(_) if rest.is_empty() && block.len() < block.capacity() => return Ok(()),
                Ok(Status::BufError) if block.len() < block.capacity() => {
                    return Err(FrameError::BadHeaders);
                }
                Ok(_) => {}
                Err(error) if error.needs_dictionary().is_some() => {
                    self.decompress
                        .set_dictionary(&DICTIONARY)
                        .map_err(|_| FrameError::BadHeaders)?;
                }
                Err(_) => return Err(FrameError::BadHeaders),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use flate2::{Compress, Compression, FlushCompress};

    use super::*;

    #[test]
    fn blocks_survive_one_compression_context() {
        let (mut deflater, mut inflater) = (Deflater::default(), Inflater::new());
        for round in 0..50 {
            let value = "x".repeat(round * 97);
            let headers = Headers::new(&[("streamType", "stdin"), ("port", &value)]);
            let mut wire = Vec::new();
            deflater.deflate(&headers, &mut wire);
            assert_eq!(inflater.inflate(&wire).expect("our own block"), headers);
            assert_eq!(headers.get("StreamType"), Some("stdin"));
        }
    }

    /// Made with another zlib: `zlib.compressobj(zdict=…)`, flushed with `Z_SYNC_FLUSH`, holding
    /// `streamtype: error` and then, in the same context, `streamtype: stdout`.
    #[test]
    fn blocks_of_another_zlib_are_understood() {
        let first = FIRST_FOREIGN_BLOCK;
        let second = SECOND_FOREIGN_BLOCK;
        let mut inflater = Inflater::new();
        let headers = inflater.inflate(first).expect("the first block");
        assert_eq!(headers.get("streamtype"), Some("error"));
        let headers = inflater.inflate(second).expect("the second block");
        assert_eq!(headers.get("streamtype"), Some("stdout"));
    }

    #[test]
    fn a_bomb_is_stopped_early() {
        let bomb = Headers::new(&[("a", &"0".repeat(10 << 20))]).encode();
        let mut wire = Vec::with_capacity(200 * 1024);
        let mut compress = Compress::new(Compression::fast(), true);
        let compressed = compress.compress_vec(&bomb, &mut wire, FlushCompress::Sync);
        compressed.expect("compress it");
        assert!(
            wire.len() < 200 * 1024,
            "not much of a bomb: {}",
            wire.len()
        );
        let mut inflater = Inflater::new();
        assert_eq!(inflater.inflate(&wire), Err(FrameError::HeadersTooLarge));
        assert!(inflater.block.capacity() <= 2 * MAX_BLOCK);
    }

    #[test]
    fn lying_lengths_are_refused() {
        for block in [
            &b""[..],
            &[0, 0, 0, 1],
            &[0, 0, 0, 1, 255, 255, 255, 255, b'a'],
        ] {
            assert_eq!(Headers::decode(block), Err(FrameError::BadHeaders));
        }
        assert_eq!(Headers::decode(&[255; 4]), Err(FrameError::HeadersTooLarge));
    }

    const FIRST_FOREIGN_BLOCK: &[u8] = &[
        0x78, 0xf9, 0xe3, 0xc6, 0xa7, 0xc2, 0x02, 0xa6, 0x23, 0x46, 0x70, 0x3a, 0x2b, 0x29, 0x4a,
        0x4d, 0xcc, 0x85, 0x16, 0x25, 0xac, 0xa9, 0xa0, 0x80, 0x06, 0x00, 0x00, 0x00, 0xff, 0xff,
    ];
    const SECOND_FOREIGN_BLOCK: &[u8] = &[
        0xc2, 0x2a, 0x05, 0x4c, 0xcc, 0x29, 0xf9, 0xa5, 0x25, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff,
    ];
}
