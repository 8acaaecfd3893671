//! As much of DER as a wrapped key needs: one value after the other, none beyond its bounds.

/// A value: its tag and its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Value<'a> {
    pub(crate) tag: u8,
    pub(crate) bytes: &'a [u8],
}

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const OCTETS: u8 = 0x04;
pub(crate) const OBJECT: u8 = 0x06;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;

/// Values that stand behind one another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Values<'a>(pub(crate) &'a [u8]);

impl<'a> Values<'a> {
    /// The next value; nothing at the end, and where what follows is none.
    pub(crate) fn next(&mut self) -> Option<Value<'a>> {
        let [tag, first, rest @ ..] = self.0 else {
            return None;
        };
        let (length, rest) = match first {
            0..=0x7f => (usize::from(*first), rest),
            // Longer lengths than of four bytes nothing has that is read here.
            0x81..=0x84 => {
                let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                let is_shortest = length.first() != Some(&0);
                let length = length
                    .iter()
                    .fold(0_usize, |so_far, byte| (so_far << 8) | usize::from(*byte));
                if !is_shortest || length <= 0x7f {
                    return None;
                }
                (length, rest)
            }
            _ => return None,
        };
        let (bytes, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(Value { tag: *tag, bytes })
    }

    /// The next value, if it has that tag.
    pub(crate) fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next()
            .filter(|value| value.tag == tag)
            .map(|value| value.bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_within_their_bounds() {
        let long = [&[INTEGER, 0x81, 0x80][..], &[9; 0x80]].concat();
        let all = [&[OCTETS, 2, 7, 8][..], &long, &[SEQUENCE, 0]].concat();
        let mut values = Values(&all);
        assert_eq!(values.expect(OCTETS), Some(&[7, 8][..]));
        assert_eq!(values.expect(INTEGER), Some(&[9; 0x80][..]));
        assert_eq!(
            values.next(),
            Some(Value {
                tag: SEQUENCE,
                bytes: &[]
            })
        );
        assert!(values.is_empty() && values.next().is_none());
        for bad in [
            &[OCTETS][..],
            &[OCTETS, 3, 1, 2],
            &[OCTETS, 0x80, 1],
            &[OCTETS, 0x85, 0, 0, 0, 0, 1, 1],
            &[OCTETS, 0x84, 255, 255, 255, 255],
            // Longer than they need be.
            &[OCTETS, 0x81, 1, 9],
            &[[OCTETS, 0x82, 0, 0x80].as_slice(), &[9; 0x80]].concat(),
        ] {
            assert_eq!(Values(bad).next(), None, "{bad:?}");
        }
    }
}
