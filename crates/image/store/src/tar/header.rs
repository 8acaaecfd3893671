//! The 512-byte header block of POSIX.1-1988 (ustar) and its GNU dialect.

/// Size of the blocks of an archive.
pub(crate) const BLOCK: usize = 512;

/// A header block with a valid checksum.
pub(crate) struct Header<'a>(&'a [u8; BLOCK]);

/// Byte ranges of the ustar header.
mod field {
    use std::ops::Range;
    pub(super) const NAME: Range<usize> = 0..100;
    pub(super) const MODE: Range<usize> = 100..108;
    pub(super) const UID: Range<usize> = 108..116;
    pub(super) const GID: Range<usize> = 116..124;
    pub(super) const SIZE: Range<usize> = 124..136;
    pub(super) const MTIME: Range<usize> = 136..148;
    pub(super) const CHECKSUM: Range<usize> = 148..156;
    pub(super) const TYPE: usize = 156;
    pub(super) const LINK: Range<usize> = 157..257;
    pub(super) const MAGIC: Range<usize> = 257..265;
    pub(super) const MAJOR: Range<usize> = 329..337;
    pub(super) const MINOR: Range<usize> = 337..345;
    pub(super) const PREFIX: Range<usize> = 345..500;
    // The old GNU sparse format reuses the prefix.
    pub(super) const SPARSE: Range<usize> = 386..482;
    pub(super) const SPARSE_MORE: usize = 482;
    pub(super) const SPARSE_SIZE: Range<usize> = 483..495;
}

impl<'a> Header<'a> {
    /// Checks the block's checksum.
    pub(crate) fn new(block: &'a [u8; BLOCK]) -> Result<Self, String> {
        let stated = number(&block[field::CHECKSUM]).ok_or("a header has no checksum")?;
        let sum: i64 = block
            .iter()
            .enumerate()
            .map(|(at, byte)| {
                if field::CHECKSUM.contains(&at) {
                    32
                } else {
                    i64::from(*byte)
                }
            })
            .sum();
        if stated == sum {
            Ok(Self(block))
        } else {
            Err("the checksum of a header does not match".to_owned())
        }
    }

    pub(crate) fn type_flag(&self) -> u8 {
        self.0[field::TYPE]
    }

    /// Returns the name, including the ustar prefix if there is one.
    pub(crate) fn name(&self) -> Vec<u8> {
        let name = text(&self.0[field::NAME]);
        let prefix = text(&self.0[field::PREFIX]);
        // "ustar\0" has a prefix field; GNU's "ustar  \0" uses these bytes for other fields.
        if &self.0[field::MAGIC][..6] == b"ustar\0" && !prefix.is_empty() {
            [prefix, b"/", name].concat()
        } else {
            name.to_vec()
        }
    }

    pub(crate) fn link(&self) -> Vec<u8> {
        text(&self.0[field::LINK]).to_vec()
    }

    pub(crate) fn mode(&self) -> Option<i64> {
        number(&self.0[field::MODE])
    }

    pub(crate) fn uid(&self) -> Option<i64> {
        number(&self.0[field::UID])
    }

    pub(crate) fn gid(&self) -> Option<i64> {
        number(&self.0[field::GID])
    }

    pub(crate) fn size(&self) -> Option<i64> {
        number(&self.0[field::SIZE])
    }

    pub(crate) fn mtime(&self) -> Option<i64> {
        number(&self.0[field::MTIME])
    }

    pub(crate) fn device(&self) -> Option<(i64, i64)> {
        Some((
            number(&self.0[field::MAJOR])?,
            number(&self.0[field::MINOR])?,
        ))
    }

    /// Returns the real size, the first map entries and whether extension blocks follow (old GNU sparse format).
    pub(crate) fn gnu_sparse(&self) -> Option<(i64, &'a [u8], bool)> {
        let size = number(&self.0[field::SPARSE_SIZE])?;
        Some((
            size,
            &self.0[field::SPARSE],
            self.0[field::SPARSE_MORE] != 0,
        ))
    }
}

/// Parses a numeric field: octal text, or GNU's big-endian two's complement with the top bit set. An empty field is
/// zero, as in all other readers.
pub(crate) fn number(field: &[u8]) -> Option<i64> {
    let first = *field.first()?;
    if first & 0x80 != 0 {
        // The top bit is the flag, the next one the sign.
        let negative = first & 0x40 != 0;
        let mut value: i128 = if negative { -1 } else { 0 };
        for (at, byte) in field.iter().enumerate() {
            let byte = if at == 0 && !negative {
                byte & 0x7f
            } else {
                *byte
            };
            value = value << 8 | i128::from(byte);
        }
        return i64::try_from(value).ok();
    }
    let digits = text(field).trim_ascii();
    digits.iter().try_fold(0_i64, |value, digit| match digit {
        b'0'..=b'7' => value.checked_mul(8)?.checked_add(i64::from(digit - b'0')),
        _ => None,
    })
}

/// Returns a text field up to its first NUL.
fn text(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_both_notations() {
        assert_eq!(number(b"0000644\0"), Some(0o644));
        assert_eq!(number(b"   644 \0"), Some(0o644));
        assert_eq!(number(b"\0\0\0\0"), Some(0));
        assert_eq!(number(b"99\0"), None);
        assert_eq!(number(&[0x80, 0, 0, 0, 1, 0, 0, 0]), Some(1 << 24));
        assert_eq!(number(&[0xff; 8]), Some(-1));
        assert_eq!(
            number(&[0x80, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            None
        );
    }
}
