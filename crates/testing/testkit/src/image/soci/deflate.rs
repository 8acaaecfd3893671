//! Finds the block boundaries of a gzip stream in bits (RFC 1951, RFC 1952), which no library reports.

/// Position between two blocks.
#[derive(Debug, Clone, Copy)]
pub struct Boundary {
    /// Bits of the stream before it.
    pub bit: u64,
    /// Bytes of the content before it.
    pub out: usize,
}

/// Decompresses a gzip stream with any number of members, and returns the positions of its blocks.
pub fn boundaries(gzip: &[u8]) -> (Vec<u8>, Vec<Boundary>) {
    let mut stream = Stream {
        data: gzip,
        bit: 0,
        out: Vec::new(),
    };
    let mut found = Vec::new();
    while stream.bit / 8 < gzip.len() as u64 {
        stream.header();
        loop {
            found.push(Boundary {
                bit: stream.bit,
                out: stream.out.len(),
            });
            if stream.block() {
                break;
            }
        }
        // The checksum and the length.
        stream.bit = stream.bit.next_multiple_of(8) + 64;
    }
    (stream.out, found)
}

struct Stream<'a> {
    data: &'a [u8],
    bit: u64,
    out: Vec<u8>,
}

/// Order of the code length codes.
const ORDER: [usize; 19] = [
    16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
];

impl Stream<'_> {
    /// Returns the next bits, at least 56; zeros follow after the end.
    fn peek(&self) -> u64 {
        let at = (self.bit / 8) as usize;
        let mut bytes = [0; 8];
        let rest = self.data.get(at..).unwrap_or_default();
        let length = rest.len().min(8);
        bytes[..length].copy_from_slice(&rest[..length]);
        u64::from_le_bytes(bytes) >> (self.bit % 8)
    }

    fn bits(&mut self, count: u32) -> usize {
        let value = self.peek() & ((1 << count) - 1);
        self.bit += u64::from(count);
        assert!(
            self.bit.div_ceil(8) <= self.data.len() as u64,
            "the gzip stream is cut off"
        );
        value as usize
    }

    fn header(&mut self) {
        assert_eq!(self.bits(24), 0x08_8b1f, "a gzip member begins otherwise");
        let flags = self.bits(8);
        self.bits(48);
        if flags & 4 != 0 {
            let extra = self.bits(16);
            self.bit += extra as u64 * 8;
        }
        for text in [8, 16] {
            while flags & text != 0 && self.bits(8) != 0 {}
        }
        if flags & 2 != 0 {
            self.bits(16);
        }
    }

    /// Decodes a block. Returns whether it was the last one.
    fn block(&mut self) -> bool {
        let last = self.bits(1) == 1;
        match self.bits(2) {
            0 => {
                self.bit = self.bit.next_multiple_of(8);
                let length = self.bits(16);
                self.bits(16);
                let at = (self.bit / 8) as usize;
                self.out.extend_from_slice(&self.data[at..at + length]);
                self.bit += length as u64 * 8;
            }
            1 => {
                let mut lengths = [8; 288];
                lengths[144..256].fill(9);
                lengths[256..280].fill(7);
                self.codes(&lengths, &[5; 30]);
            }
            2 => {
                let (literals, distances) = (self.bits(5) + 257, self.bits(5) + 1);
                let told = self.bits(4) + 4;
                let mut lengths = [0; 19];
                for at in ORDER.iter().take(told) {
                    lengths[*at] = self.bits(3) as u8;
                }
                let codes = Codes::new(&lengths);
                let mut all: Vec<u8> = Vec::new();
                while all.len() < literals + distances {
                    let (value, times) = match self.symbol(&codes) {
                        16 => (*all.last().expect("a length before"), self.bits(2) + 3),
                        17 => (0, self.bits(3) + 3),
                        18 => (0, self.bits(7) + 11),
                        length => (length as u8, 1),
                    };
                    all.extend(std::iter::repeat_n(value, times));
                }
                self.codes(&all[..literals], &all[literals..]);
            }
            _ => panic!("a block of a type that there is not"),
        }
        last
    }

    fn codes(&mut self, literals: &[u8], distances: &[u8]) {
        let (literals, distances) = (Codes::new(literals), Codes::new(distances));
        loop {
            match self.symbol(&literals) {
                byte @ 0..256 => self.out.push(byte as u8),
                256 => return,
                symbol => {
                    let length = match symbol - 257 {
                        short @ 0..8 => short + 3,
                        28 => 258,
                        long => {
                            let extra = (long - 4) / 4;
                            ((4 + long % 4) << extra) + 3 + self.bits(extra as u32)
                        }
                    };
                    let distance = match self.symbol(&distances) {
                        near @ 0..4 => near + 1,
                        far => {
                            let extra = (far - 2) / 2;
                            ((2 + far % 2) << extra) + 1 + self.bits(extra as u32)
                        }
                    };
                    self.repeat(length, distance);
                }
            }
        }
    }

    /// Copies bytes from a distance, possibly overlapping the output.
    fn repeat(&mut self, length: usize, distance: usize) {
        let begin = self.out.len() - distance;
        let mut done = 0;
        while done < length {
            let piece = distance.min(length - done);
            self.out
                .extend_from_within(begin + done..begin + done + piece);
            done += piece;
        }
    }

    fn symbol(&mut self, codes: &Codes) -> usize {
        let (symbol, length) = codes.table[self.peek() as usize & (codes.table.len() - 1)];
        assert!(length > 0, "no symbol has this code");
        self.bits(length.into());
        symbol.into()
    }
}

/// Table with the symbol and its code length for each value of the next bits.
struct Codes {
    table: Vec<(u16, u8)>,
}

impl Codes {
    /// Builds the table from code lengths (RFC 1951, 3.2.2).
    fn new(lengths: &[u8]) -> Self {
        let longest = lengths.iter().copied().max().unwrap_or(0).max(1);
        let mut table = vec![(0, 0); 1 << longest];
        let mut code = 0_u16;
        for length in 1..=longest {
            code <<= 1;
            let with = (0_u16..).zip(lengths).filter(|(_, own)| **own == length);
            for (symbol, _) in with {
                // Codes are stored most significant bit first.
                let first = code.reverse_bits() >> (16 - length);
                for at in (usize::from(first)..table.len()).step_by(1 << length) {
                    table[at] = (symbol, length);
                }
                code += 1;
            }
        }
        Self { table }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::image::Layer;

    fn gzip(content: &[u8], level: u32) -> Vec<u8> {
        let level = flate2::Compression::new(level);
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), level);
        packer.write_all(content).expect("compress in memory");
        packer.finish().expect("compress in memory")
    }

    #[test]
    fn content_of_all_levels_comes_back_and_its_blocks_are_in_order() {
        let mut content = Layer::new().noise("n", 100_000).tar();
        content.extend(b"over and over ".repeat(20_000));
        content.extend((0..300_000_u32).map(|n| (n.wrapping_mul(n) >> 13) as u8 & 31));
        for level in [0, 1, 6, 9] {
            let (found, blocks) = boundaries(&gzip(&content, level));
            assert!(found == content, "level {level}");
            // The fastest compression produces one block.
            let enough = blocks.len() > 2 || level == 1;
            assert!(enough, "level {level}: {}", blocks.len());
            assert!(blocks.is_sorted_by(|a, b| a.bit < b.bit && a.out <= b.out));
        }
        let short = gzip(b"a", 9);
        let (found, blocks) = boundaries(&[&short[..], &short].concat());
        assert_eq!((&found[..], blocks.len()), (&b"aa"[..], 2));
        assert_eq!(blocks[1].bit, (short.len() as u64 + 10) * 8);
    }
}
