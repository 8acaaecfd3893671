//! JSON values: base64 bytes, hexadecimal digests, numbers as strings.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::de::{self, Deserialize, Deserializer, Visitor};

/// Bytes in base64.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Base64(pub(crate) Vec<u8>);

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        let bytes = BASE64_STANDARD.decode(text.as_bytes());
        bytes.map(Self).map_err(de::Error::custom)
    }
}

/// Bytes in hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hex(pub(crate) Vec<u8>);

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        let bytes = unhex(&text).ok_or_else(|| de::Error::custom("not hexadecimal digits"))?;
        Ok(Self(bytes))
    }
}

/// Parses lower-case hexadecimal digits.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = Vec::with_capacity(text.len() / 2);
    for pair in text.as_bytes().chunks(2) {
        let [high, low] = *pair else { return None };
        bytes.push(digit(high)? << 4 | digit(low)?);
    }
    Some(bytes)
}

/// The largest number that all JSON parsers read alike.
const MAX_NUMBER: u64 = 1 << 53;

/// A number of a log: a string in protocol buffers, a number elsewhere. It is not negative, and small enough that all
/// parsers read it alike.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Number(pub(crate) u64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reader)
    }
}

struct Reader;

impl Visitor<'_> for Reader {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Number, E> {
        if number > MAX_NUMBER {
            return Err(E::custom("a number is too large"));
        }
        Ok(Number(number))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Number, E> {
        let number = u64::try_from(number).map_err(|_| E::custom("a number is negative"))?;
        self.visit_u64(number)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Number, E> {
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|_| plain);
        self.visit_u64(number.ok_or_else(|| E::custom("not a whole number"))?)
    }
}
