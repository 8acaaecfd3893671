//! Protocol Buffers on the wire, as far as the messages of containerd and its shims need them.

/// A message being written. Fields of their default value are left out, as the encoding has it.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// A number, or a flag.
    pub fn number(mut self, field: u32, value: u64) -> Self {
        if value != 0 {
            varint(&mut self.0, u64::from(field) << 3);
            varint(&mut self.0, value);
        }
        self
    }

    /// A text.
    pub fn text(self, field: u32, value: &str) -> Self {
        self.bytes(field, value.as_bytes())
    }

    /// Bytes.
    pub fn bytes(self, field: u32, value: &[u8]) -> Self {
        if value.is_empty() {
            return self;
        }
        self.message(field, value)
    }

    /// Unlike an empty text, an empty message is there.
    pub fn message(mut self, field: u32, value: &[u8]) -> Self {
        varint(&mut self.0, (u64::from(field) << 3) | LENGTH);
        varint(&mut self.0, value.len() as u64);
        self.0.extend(value);
        self
    }

    /// The message.
    pub fn done(self) -> Vec<u8> {
        self.0
    }
}

const NUMBER: u64 = 0;
const EIGHT_BYTES: u64 = 1;
const LENGTH: u64 = 2;
const FOUR_BYTES: u64 = 5;

/// A field of a message.
#[derive(Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Which one.
    pub number: u32,
    /// What it holds.
    pub value: Value<'a>,
}

/// What a field holds. Fixed-width numbers are in none of our messages.
#[derive(Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number, or a flag.
    Number(u64),
    /// A text, bytes or a message.
    Bytes(&'a [u8]),
    /// Something else.
    Other,
}

impl<'a> Field<'a> {
    /// The number; 0 where it is none.
    pub fn as_number(&self) -> u64 {
        match self.value {
            Value::Number(number) => number,
            _ => 0,
        }
    }

    /// The bytes; none where it is something else.
    pub fn as_bytes(&self) -> &'a [u8] {
        match self.value {
            Value::Bytes(bytes) => bytes,
            _ => &[],
        }
    }

    /// The text, what is no text in it replaced.
    pub fn as_text(&self) -> String {
        String::from_utf8_lossy(self.as_bytes()).into_owned()
    }
}

/// The fields of a message in their order; `None` where it is garbled.
pub fn fields(mut rest: &[u8]) -> impl Iterator<Item = Option<Field<'_>>> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let field = take_field(&mut rest);
        if field.is_none() {
            rest = &[];
        }
        Some(field)
    })
}

/// The fields of a message up to where it is garbled.
pub fn whole_fields(message: &[u8]) -> impl Iterator<Item = Field<'_>> {
    fields(message).map_while(|field| field)
}

/// All fields of this number.
pub fn all(message: &[u8], number: u32) -> impl Iterator<Item = Field<'_>> {
    whole_fields(message).filter(move |field| field.number == number)
}

/// The last field of this number, which is the one that counts.
pub fn field(message: &[u8], number: u32) -> Option<Field<'_>> {
    all(message, number).last()
}

/// A number of a message; 0 where it is left out.
pub fn number(message: &[u8], wanted: u32) -> u64 {
    field(message, wanted).map_or(0, |field| field.as_number())
}

/// A text of a message; empty where it is left out.
pub fn text(message: &[u8], wanted: u32) -> String {
    field(message, wanted).map_or_else(String::new, |field| field.as_text())
}

/// The bytes of a field, or the message in it; none where it is left out.
pub fn bytes(message: &[u8], wanted: u32) -> &[u8] {
    field(message, wanted).map_or(&[], |field| field.as_bytes())
}

/// A message of some other schema, which its type names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Any<'a> {
    /// Its type.
    pub kind: String,
    /// As it is encoded.
    pub value: &'a [u8],
}

impl<'a> Any<'a> {
    /// Reads one.
    pub fn parse(message: &'a [u8]) -> Self {
        Self {
            kind: text(message, 1),
            value: bytes(message, 2),
        }
    }
}

/// A field that is a message of some other schema; `None` where it is left out.
pub fn any(message: &[u8], wanted: u32) -> Option<Any<'_>> {
    field(message, wanted).map(|field| Any::parse(field.as_bytes()))
}

fn take_field<'a>(rest: &mut &'a [u8]) -> Option<Field<'a>> {
    let key = take_varint(rest)?;
    let value = match key & 7 {
        NUMBER => Value::Number(take_varint(rest)?),
        LENGTH => {
            let length = usize::try_from(take_varint(rest)?).ok()?;
            Value::Bytes(take(rest, length)?)
        }
        EIGHT_BYTES => take(rest, 8).map(|_| Value::Other)?,
        FOUR_BYTES => take(rest, 4).map(|_| Value::Other)?,
        _ => return None,
    };
    let number = u32::try_from(key >> 3).ok()?;
    Some(Field { number, value })
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, left) = rest.split_first()?;
        *rest = left;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::{Field, Value, Writer, fields};

    #[test]
    fn what_is_written_is_read() {
        let inner = Writer::default().text(1, "a").done();
        let message = Writer::default()
            .number(1, 300)
            .number(2, 0)
            .text(3, "")
            .text(4, "text")
            .message(5, &inner)
            .number(6, u64::MAX)
            .done();
        let read: Vec<_> = fields(&message).map(Option::unwrap).collect();
        let of = |number, value| Field { number, value };
        assert_eq!(
            read,
            [
                of(1, Value::Number(300)),
                of(4, Value::Bytes(b"text")),
                of(5, Value::Bytes(&[0x0a, 1, b'a'])),
                of(6, Value::Number(u64::MAX)),
            ]
        );
    }

    /// `protoc --encode` of a message with a fixed64, a fixed32 and a number after them.
    #[test]
    fn fields_of_no_interest_are_passed_over() {
        let message = [
            0x09, 1, 2, 3, 4, 5, 6, 7, 8, 0x15, 1, 2, 3, 4, 0x18, 0x96, 0x01,
        ];
        let numbers: Vec<_> = fields(&message)
            .map(|field| field.unwrap().as_number())
            .collect();
        assert_eq!(numbers, [0, 0, 150]);
    }

    #[test]
    fn garbled_messages_end_the_reading() {
        for garbled in [&[0x0a, 5, 1][..], &[0x08], &[0xff; 12], &[0x0b]] {
            let read: Vec<_> = fields(garbled).collect();
            assert_eq!(read, [None], "{garbled:?}");
        }
    }
}
