//! Protocol buffers, as far as CRIU's messages need them: numbers and what has a length.

use crate::error::{Error, Result};

/// A message that is being written.
#[derive(Debug, Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn number(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(value);
    }

    /// A descriptor or another small number.
    pub(super) fn int(&mut self, field: u32, value: i32) {
        // Negative ones are as long as a number can be.
        self.number(field, i64::from(value) as u64);
    }

    pub(super) fn flag(&mut self, field: u32, value: bool) {
        self.number(field, u64::from(value));
    }

    pub(super) fn text(&mut self, field: u32, value: &str) {
        self.bytes(field, value.as_bytes());
    }

    pub(super) fn bytes(&mut self, field: u32, value: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    /// A message within this one.
    pub(super) fn message(&mut self, field: u32, fill: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        fill(&mut inner);
        self.bytes(field, &inner.0);
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

/// A field that was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl Value<'_> {
    pub(super) fn number(&self) -> u64 {
        match self {
            Self::Number(value) => *value,
            Self::Bytes(_) => 0,
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            Self::Number(_) => String::new(),
            Self::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        }
    }
}

/// All fields of a message, in their order.
pub(super) fn fields(mut bytes: &[u8]) -> Result<Vec<(u32, Value<'_>)>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let value = match key & 7 {
            0 => Value::Number(varint(&mut bytes)?),
            1 => Value::Bytes(take(&mut bytes, 8)?),
            2 => {
                let length = varint(&mut bytes)?;
                Value::Bytes(take(&mut bytes, length)?)
            }
            5 => Value::Bytes(take(&mut bytes, 4)?),
            _ => return Err(malformed()),
        };
        found.push(((key >> 3) as u32, value));
    }
    Ok(found)
}

fn varint(bytes: &mut &[u8]) -> Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(malformed())
}

fn take<'a>(bytes: &mut &'a [u8], length: u64) -> Result<&'a [u8]> {
    let length = usize::try_from(length).map_err(|_| malformed())?;
    let (taken, rest) = bytes.split_at_checked(length).ok_or_else(malformed)?;
    *bytes = rest;
    Ok(taken)
}

fn malformed() -> Error {
    Error::new("unable to parse the response of CRIU: the message is malformed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let mut writer = Writer::default();
        writer.number(1, 300);
        writer.int(2, -1);
        writer.flag(3, true);
        writer.text(37, "net[1]:x");
        writer.message(5, |inner| inner.number(2, 7));
        let bytes = writer.into_bytes();
        // As protocol buffers have it: field 1 of the first kind, 300 in two bytes.
        assert_eq!(bytes[..3], [0x08, 0xac, 0x02]);
        let read = fields(&bytes).unwrap();
        assert_eq!(read[0], (1, Value::Number(300)));
        assert_eq!(read[1].1.number() as i32, -1);
        assert_eq!(read[2], (3, Value::Number(1)));
        assert_eq!((read[3].0, read[3].1.text()), (37, "net[1]:x".to_owned()));
        assert_eq!(read[4], (5, Value::Bytes(&[0x10, 7])));
        for cut in 1..bytes.len() {
            // Where a field ends is an end, too.
            if let Ok(some) = fields(&bytes[..cut]) {
                assert!(some.len() < read.len());
            }
        }
        assert!(fields(&[0x80; 20]).is_err());
        assert!(fields(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f]).is_err());
    }
}
