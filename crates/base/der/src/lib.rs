//! A reader of DER (X.690) for keys, certificates, timestamps and wrapped keys: one value after the other, without
//! recursion. It accepts only the shortest form of a length. Input is untrusted; no length can reach beyond the input.

/// The tag of `BOOLEAN`.
pub const BOOLEAN: u8 = 0x01;
/// The tag of `INTEGER`.
pub const INTEGER: u8 = 0x02;
/// The tag of `BIT STRING`.
pub const BITS: u8 = 0x03;
/// The tag of `OCTET STRING`.
pub const OCTETS: u8 = 0x04;
/// The tag of `NULL`.
pub const NULL: u8 = 0x05;
/// The tag of `OBJECT IDENTIFIER`.
pub const OID: u8 = 0x06;
/// The tag of `UTF8String`.
pub const UTF8: u8 = 0x0c;
/// The tag of `UTCTime`.
pub const UTC_TIME: u8 = 0x17;
/// The tag of `GeneralizedTime`.
pub const GENERALIZED_TIME: u8 = 0x18;
/// The tag of `SEQUENCE`.
pub const SEQUENCE: u8 = 0x30;
/// The tag of `SET`.
pub const SET: u8 = 0x31;

/// Returns the tag `[number]` around other values.
pub const fn explicit(number: u8) -> u8 {
    0xa0 | number
}

/// Returns the tag `[number]` in place of a primitive value's own tag.
pub const fn implicit(number: u8) -> u8 {
    0x80 | number
}

/// Input that is not valid DER, or not the expected value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// One value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value<'a> {
    /// Its tag, a single byte.
    pub tag: u8,
    /// Its content.
    pub content: &'a [u8],
    /// Its encoding, including tag and length.
    pub whole: &'a [u8],
}

/// A sequence of values.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns whether no value is left.
    pub fn is_empty(self) -> bool {
        self.rest.is_empty()
    }

    /// Reads the next value of any type.
    pub fn read(&mut self) -> Result<Value<'a>, Malformed> {
        let [tag, first, ..] = *self.rest else {
            return Err(Malformed);
        };
        // No certificate field has a tag of several bytes.
        if tag & 0x1f == 0x1f {
            return Err(Malformed);
        }
        let (header, length) = match first {
            0..=0x7f => (2, usize::from(first)),
            // Larger lengths than four bytes are never needed here.
            0x81..=0x84 => {
                let count = usize::from(first & 0x7f);
                let bytes = self.rest.get(2..2 + count).ok_or(Malformed)?;
                let length = bytes
                    .iter()
                    .fold(0, |all, byte| all << 8 | usize::from(*byte));
                let is_shortest = bytes[0] != 0 && length > 0x7f;
                if !is_shortest {
                    return Err(Malformed);
                }
                (2 + count, length)
            }
            _ => return Err(Malformed),
        };
        let end = header + length;
        let whole = self.rest.get(..end).ok_or(Malformed)?;
        self.rest = &self.rest[end..];
        Ok(Value {
            tag,
            content: &whole[header..],
            whole,
        })
    }

    /// Reads the next value, which must have this tag.
    pub fn expect(&mut self, tag: u8) -> Result<Value<'a>, Malformed> {
        let value = self.read()?;
        (value.tag == tag).then_some(value).ok_or(Malformed)
    }

    /// Reads the next value if it has this tag.
    pub fn optional(&mut self, tag: u8) -> Result<Option<Value<'a>>, Malformed> {
        match self.rest.first() {
            Some(next) if *next == tag => self.read().map(Some),
            _ => Ok(None),
        }
    }

    /// Checks that no value is left.
    pub fn finish(self) -> Result<(), Malformed> {
        if self.is_empty() {
            Ok(())
        } else {
            Err(Malformed)
        }
    }
}

impl<'a> Value<'a> {
    /// Returns the values inside this one.
    pub fn values(self) -> Reader<'a> {
        Reader::new(self.content)
    }
}

/// Reads bytes that consist of a single value.
pub fn only(bytes: &[u8], tag: u8) -> Result<Value<'_>, Malformed> {
    let mut reader = Reader::new(bytes);
    let value = reader.expect(tag)?;
    reader.finish()?;
    Ok(value)
}

/// Encodes one value.
pub fn write(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(content.len() + 6);
    bytes.push(tag);
    if content.len() < 0x80 {
        bytes.push(content.len() as u8);
    } else {
        let length = content.len().to_be_bytes();
        let zeros = length.iter().take_while(|byte| **byte == 0).count();
        bytes.push(0x80 | (length.len() - zeros) as u8);
        bytes.extend_from_slice(&length[zeros..]);
    }
    bytes.extend_from_slice(content);
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_the_shortest_form_of_a_length_is_read() {
        for (bytes, content) in [
            (&[0x04, 0x01, 7][..], Some(&[7][..])),
            (&[0x04, 0x00], Some(&[])),
            (&[0x04, 0x81, 0x01, 7], None),
            (&[0x04, 0x82, 0x00, 0x80], None),
            (&[0x04, 0x80], None),
            (&[0x04, 0x85, 1, 1, 1, 1, 1], None),
            (&[0x04, 0x84, 0xff, 0xff, 0xff, 0xff], None),
            (&[0x04, 0x02, 7], None),
            (&[0x1f, 0x01, 7], None),
            (&[0x04], None),
            (&[], None),
        ] {
            let read = Reader::new(bytes).read().ok();
            assert_eq!(read.map(|value| value.content), content, "{bytes:x?}");
        }
        assert_eq!(only(&[0x04, 0, 0], OCTETS), Err(Malformed));
        assert_eq!(only(&[0x04, 0], SEQUENCE), Err(Malformed));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(content in prop::collection::vec(any::<u8>(), 0..70_000)) {
            let bytes = write(SEQUENCE, &content);
            prop_assert_eq!(only(&bytes, SEQUENCE).map(|value| value.content), Ok(&content[..]));
        }

        #[test]
        fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut reader = Reader::new(&bytes);
            while let Ok(value) = reader.read() {
                prop_assert!(value.content.len() < value.whole.len());
            }
        }
    }
}
