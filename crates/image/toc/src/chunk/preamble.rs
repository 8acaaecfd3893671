//! What is put before a span, so that an inflater which begins at its beginning is where the stream was.
//!
//! An inflater begins at a byte and with nothing to look back to. So the window is told to it first, as a block that
//! is stored; then blocks of no content fill the bits of the span's first byte that are not the span's (RFC 1951):
//! one with fixed codes has 10 bits, and one with codes of its own can have 93, so that some of both end at any bit.

use crate::window::{WINDOW, Window};

/// The bytes before the second one of a span, if its first one, `shared`, belongs to it for its upper `bits` bits;
/// else before its first one.
pub(super) fn preamble(window: &Window, shared: u8, bits: u8) -> Vec<u8> {
    let length = WINDOW as u16;
    let mut stored = Vec::with_capacity(WINDOW + 40);
    stored.push(0);
    stored.extend_from_slice(&length.to_le_bytes());
    stored.extend_from_slice(&(!length).to_le_bytes());
    stored.extend_from_slice(window);
    if bits == 0 {
        return stored;
    }
    let mut out = Bits {
        bytes: stored,
        pending: 0,
        count: 0,
    };
    let wanted = u32::from(8 - bits);
    let mut left = wanted;
    if wanted % 2 == 1 {
        own_codes(&mut out);
        // It ends 5 bits behind a byte.
        left = (wanted + 3) % 8;
    }
    for _ in 0..left / 2 {
        // 10 bits, 2 behind a byte: not the last block, fixed codes, the end of the block.
        out.put(0b010, 3);
        out.put(0, 7);
    }
    out.put(u32::from(shared) >> wanted, u32::from(bits));
    out.bytes
}

/// A block of 93 bits with codes of its own, the end of the block, and nothing else.
fn own_codes(out: &mut Bits) {
    // Not the last block, codes of its own: 257 of content, 1 of distances, told in 18 lengths.
    out.put(0b100, 3);
    out.put(0, 5);
    out.put(0, 5);
    out.put(18 - 4, 4);
    // The lengths are told by the symbols 18 and 0, of 2 bits, and 1, of 1 bit; these are third, fourth and last.
    for at in 0..18 {
        let bits = match at {
            2 | 3 => 2,
            17 => 1,
            _ => 0,
        };
        out.put(bits, 3);
    }
    // None of 138 and 118 symbols of content is used (18 twice, less 11 each), the end of the block has 1 bit, no
    // distance is used.
    for unused in [138, 118] {
        out.put(0b11, 2);
        out.put(unused - 11, 7);
    }
    out.put(0, 1);
    out.put(0b01, 2);
    // The end of the block.
    out.put(0, 1);
}

/// Bits, the lowest first.
struct Bits {
    bytes: Vec<u8>,
    pending: u32,
    count: u32,
}

impl Bits {
    fn put(&mut self, value: u32, count: u32) {
        self.pending |= value << self.count;
        self.count += count;
        while self.count >= 8 {
            self.bytes.push(self.pending as u8);
            self.pending >>= 8;
            self.count -= 8;
        }
    }
}
