//! Preamble of a span: deflate data that brings a new inflater into the state of the stream.
//!
//! An inflater starts at a byte boundary and with an empty window. So the preamble first contains the window as a
//! stored block. Then blocks without content fill the bits of the span's first byte that do not belong to the span
//! (RFC 1951). A block with fixed codes has 10 bits, and one with dynamic codes can have 93, so that a combination of
//! both ends at any bit.

use crate::window::{WINDOW, Window};

/// Returns the preamble of a span. If `bits` is not 0, the upper `bits` bits of the span's first byte, `shared`,
/// belong to it, and the preamble contains this byte.
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
        // The block ends 5 bits after a byte boundary.
        left = (wanted + 3) % 8;
    }
    for _ in 0..left / 2 {
        // 10 bits, 2 more than a byte: not the last block, fixed codes, the end of the block.
        out.put(0b010, 3);
        out.put(0, 7);
    }
    out.put(u32::from(shared) >> wanted, u32::from(bits));
    out.bytes
}

/// Writes a block of 93 bits with dynamic codes and only the end-of-block symbol.
fn own_codes(out: &mut Bits) {
    // Not the last block, dynamic codes: 257 literal codes, 1 distance code, 18 code length codes.
    out.put(0b100, 3);
    out.put(0, 5);
    out.put(0, 5);
    out.put(18 - 4, 4);
    // The code lengths use the symbols 18 and 0, of 2 bits, and 1, of 1 bit; these are third, fourth and last.
    for at in 0..18 {
        let bits = match at {
            2 | 3 => 2,
            17 => 1,
            _ => 0,
        };
        out.put(bits, 3);
    }
    // The 138 and 118 literals are unused (symbol 18 twice, with 11 subtracted each), the end of the block has 1 bit,
    // the distance is unused.
    for unused in [138, 118] {
        out.put(0b11, 2);
        out.put(unused - 11, 7);
    }
    out.put(0, 1);
    out.put(0b01, 2);
    // The end of the block.
    out.put(0, 1);
}

/// Bit writer, lowest bit first.
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
