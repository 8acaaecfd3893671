//! Gzip decompression that starts in the middle of a stream.

use std::io::{self, ErrorKind, Read};

use flate2::bufread::{DeflateDecoder, MultiGzDecoder};

use super::preamble::preamble;
use crate::window::{WINDOW, Window};

/// Size of the trailer of a gzip member (RFC 1952): a checksum and a length.
const TRAILER: u32 = 8;

/// Decompresses a span of a gzip stream and appends at most the given number of bytes to `content`. If `bits` is not
/// 0, only that many upper bits of the first byte belong to the span. `window` is the content before the span.
///
/// A member of the stream may end in the span, and others may follow.
pub(super) fn span(
    span: &[u8],
    bits: u8,
    window: &Window,
    length: u64,
    content: &mut Vec<u8>,
) -> io::Result<()> {
    if length == 0 {
        return Ok(());
    }
    let (shared, rest) = match (bits, span) {
        (0, _) => (0, span),
        (1..8, [shared, rest @ ..]) => (*shared, rest),
        _ => return Err(ErrorKind::InvalidData.into()),
    };
    let preamble = preamble(window, shared, bits);
    let mut inflated = DeflateDecoder::new((&preamble[..]).chain(rest));
    pass_over(&mut inflated, WINDOW as u32)?;
    let made = io::copy(&mut (&mut inflated).take(length), content)?;
    if made == length {
        return Ok(());
    }
    let mut behind = inflated.into_inner();
    pass_over(&mut behind, TRAILER)?;
    let others = MultiGzDecoder::new(behind);
    io::copy(&mut others.take(length - made), content)?;
    Ok(())
}

/// Reads and discards the given number of bytes.
pub(super) fn pass_over(from: &mut impl Read, bytes: u32) -> io::Result<()> {
    let passed = io::copy(&mut from.take(bytes.into()), &mut io::sink())?;
    if passed < u64::from(bytes) {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::write::DeflateEncoder;

    use super::*;

    fn noise(length: usize) -> Vec<u8> {
        let mut state = 7_u32;
        let mut next = move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Few different values, so that the data contains back references.
            (state >> 28) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    fn made(data: &[u8], bits: u8, window: &Window, length: usize) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        span(data, bits, window, length as u64, &mut content)?;
        Ok(content)
    }

    fn filled(byte: u8) -> Box<Window> {
        vec![byte; WINDOW].into_boxed_slice().try_into().unwrap()
    }

    /// Compresses data that refers back into the window, and shifts it by the given number of bits.
    fn moved(content: &[u8], window: &Window, bits: u8) -> Vec<u8> {
        let mut encoder = DeflateEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(window).unwrap();
        encoder.flush().unwrap();
        // The flushed output ends at a byte boundary.
        let before = encoder.get_ref().len();
        encoder.write_all(content).unwrap();
        let data = encoder.finish().unwrap().split_off(before);
        if bits == 0 {
            return data;
        }
        let free = 8 - u32::from(bits);
        // The lower bits belong to the previous block.
        let mut carried = 0b0101_0101_u16 & ((1 << free) - 1);
        let mut all = Vec::new();
        for byte in data {
            carried |= u16::from(byte) << free;
            all.push(carried as u8);
            carried >>= 8;
        }
        all.push(carried as u8);
        all
    }

    #[test]
    fn a_span_is_entered_at_any_bit() {
        let content = noise(100_000);
        let window: Window = content[..WINDOW].try_into().unwrap();
        for bits in 0..8 {
            let data = moved(&content, &window, bits);
            assert!(data.len() < 70_000, "{}", data.len());
            let found = made(&data, bits, &window, content.len()).unwrap();
            assert!(found == content, "{bits} bits");
        }
    }

    #[test]
    fn another_window_makes_other_content() {
        let window: Window = noise(WINDOW).try_into().unwrap();
        let content = &window[WINDOW / 2..];
        let data = moved(content, &window, 0);
        // Data from the window is not stored again.
        assert!(data.len() < 1000, "{}", data.len());
        let found = made(&data, 0, &filled(9), content.len()).unwrap();
        assert_eq!(found.len(), content.len());
        assert!(found.iter().all(|byte| *byte == 9));
    }

    #[test]
    fn members_behind_the_first_are_read_on() {
        let content = noise(3000);
        let window = filled(0);
        let mut data = moved(&content, &window, 0);
        data.extend([0; TRAILER as usize]);
        for _ in 0..2 {
            let mut encoder = flate2::write::GzEncoder::new(data, flate2::Compression::fast());
            encoder.write_all(&content).unwrap();
            data = encoder.finish().unwrap();
        }
        for length in [9000, 9001, 20_000] {
            let found = made(&data, 0, &window, length).unwrap();
            assert!(found == content.repeat(3));
        }
        let found = made(&data, 0, &window, 7000).unwrap();
        assert!(found == content.repeat(3)[..7000]);
    }

    #[test]
    fn what_is_cut_off_or_of_no_bits_is_refused() {
        let content = noise(3000);
        let window = filled(0);
        let data = moved(&content, &window, 3);
        for (data, bits) in [(&data[..], 8), (&data[..], 255), (&[][..], 3), (&[], 0)] {
            assert!(made(data, bits, &window, 3000).is_err());
        }
        assert!(made(&data[..data.len() - 10], 3, &window, 3000).is_err());
        assert!(made(&[], 3, &window, 0).is_ok());
    }
}
