//! Where the blocks of a gzip stream begin, bit by bit: an inflater that is slow and plain (RFC 1951).

/// A place between two blocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Boundary {
    /// Bits of the stream before it.
    pub(super) bit: u64,
    /// Bytes of the content before it.
    pub(super) out: usize,
}

struct Inflater<'a> {
    data: &'a [u8],
    bit: u64,
    out: Vec<u8>,
}

/// The content of a gzip stream of any number of members, and where their blocks begin.
pub(super) fn boundaries(gzip: &[u8]) -> (Vec<u8>, Vec<Boundary>) {
    let mut inflater = Inflater {
        data: gzip,
        bit: 0,
        out: Vec::new(),
    };
    let mut found = Vec::new();
    while inflater.bit / 8 < gzip.len() as u64 {
        inflater.header();
        loop {
            found.push(Boundary {
                bit: inflater.bit,
                out: inflater.out.len(),
            });
            if inflater.block() {
                break;
            }
        }
        inflater.bit = inflater.bit.next_multiple_of(8) + 64;
    }
    (inflater.out, found)
}

impl Inflater<'_> {
    fn bits(&mut self, count: u32) -> usize {
        let mut value = 0;
        for at in 0..count {
            let byte = self.data[(self.bit / 8) as usize];
            value |= usize::from(byte >> (self.bit % 8) & 1) << at;
            self.bit += 1;
        }
        value
    }

    fn header(&mut self) {
        assert_eq!(self.bits(24), 0x08_8b1f);
        let flags = self.bits(8);
        self.bits(48);
        if flags & 4 != 0 {
            let extra = self.bits(16);
            self.bit += extra as u64 * 8;
        }
        for flag in [8, 16] {
            while flags & flag != 0 && self.bits(8) != 0 {}
        }
    }

    /// Whether it was the last one.
    fn block(&mut self) -> bool {
        let last = self.bits(1) == 1;
        match self.bits(2) {
            0 => {
                self.bit = self.bit.next_multiple_of(8);
                let length = self.bits(16);
                self.bits(16);
                for _ in 0..length {
                    let byte = self.bits(8) as u8;
                    self.out.push(byte);
                }
            }
            1 => {
                let mut lengths = [8; 288];
                lengths[144..256].fill(9);
                lengths[256..280].fill(7);
                self.codes(&lengths, &[5; 30]);
            }
            _ => {
                let (literals, distances) = (self.bits(5) + 257, self.bits(5) + 1);
                let told = self.bits(4) + 4;
                let mut lengths = [0; 19];
                let order = [
                    16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
                ];
                for at in order.iter().take(told) {
                    lengths[*at] = self.bits(3) as u8;
                }
                let codes = Codes::new(&lengths);
                let mut all: Vec<u8> = Vec::new();
                while all.len() < literals + distances {
                    let (value, times) = match self.symbol(&codes) {
                        16 => (*all.last().unwrap(), self.bits(2) + 3),
                        17 => (0, self.bits(3) + 3),
                        18 => (0, self.bits(7) + 11),
                        length => (length as u8, 1),
                    };
                    all.extend(std::iter::repeat_n(value, times));
                }
                self.codes(&all[..literals], &all[literals..]);
            }
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
                    for _ in 0..length {
                        self.out.push(self.out[self.out.len() - distance]);
                    }
                }
            }
        }
    }

    /// The next symbol.
    fn symbol(&mut self, codes: &Codes) -> usize {
        let (mut code, mut first, mut passed) = (0, 0, 0);
        for count in &codes.counts[1..] {
            code = code << 1 | self.bits(1);
            if code < first + count {
                return codes.symbols[passed + code - first];
            }
            passed += count;
            first = (first + count) << 1;
        }
        panic!("no symbol has this code");
    }
}

/// Symbols by the lengths of their codes (RFC 1951, 3.2.2).
struct Codes {
    counts: [usize; 16],
    symbols: Vec<usize>,
}

impl Codes {
    fn new(lengths: &[u8]) -> Self {
        let mut counts = [0; 16];
        let mut symbols = Vec::new();
        for length in 1..16 {
            let with = (0..lengths.len()).filter(|at| usize::from(lengths[*at]) == length);
            symbols.extend(with);
            counts[length] = symbols.len() - counts[..length].iter().sum::<usize>();
        }
        Self { counts, symbols }
    }
}
