//! The encoding of a payload: a sequence of fields, each `tag: u16 LE, length: u32 LE, bytes`.
//!
//! | Rust type | bytes |
//! |---|---|
//! | unsigned number, `bool`, enumeration | 1 to 8 bytes, little endian |
//! | signed number | 8 bytes, little endian, two's complement |
//! | text, path, argument | its bytes, no terminator |
//! | message | its fields |
//! | `Vec<T>` | the field repeated, once per element |
//! | `Option<T>` | the field, or nothing |
//!
//! A field that equals its type's default is left out; an unknown tag is skipped.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// Bytes that do not follow the encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A field's length points behind the end of its payload.
    #[error("a field is truncated")]
    Truncated,
    /// A number has more bytes, or a larger value, than its type allows.
    #[error("a number does not fit its field")]
    Number,
    /// A text is not UTF-8.
    #[error("a string is not valid UTF-8")]
    Text,
    /// A frame announces more bytes or descriptors than allowed.
    #[error("a frame is larger than the protocol limit")]
    Oversized,
    /// A frame announces descriptors that did not come with it.
    #[error("a frame arrived without its file descriptors")]
    MissingFds,
}

/// One encoded value, without its tag.
pub trait Value: Sized {
    /// Appends the value's bytes to `out`.
    fn write(&self, out: &mut Vec<u8>);
    /// Reads a value from exactly these bytes.
    fn read(raw: &[u8]) -> Result<Self, Malformed>;
}

/// A member of a message: absent, one value or many.
pub trait Field: Default {
    /// Appends the member, with its tag, to `out`.
    fn put(&self, tag: u16, out: &mut Vec<u8>);
    /// Reads one occurrence of the member.
    fn take(&mut self, raw: &[u8]) -> Result<(), Malformed>;
}

impl<V: Value + Default + PartialEq> Field for V {
    fn put(&self, tag: u16, out: &mut Vec<u8>) {
        if *self != V::default() {
            put_value(tag, self, out);
        }
    }

    fn take(&mut self, raw: &[u8]) -> Result<(), Malformed> {
        *self = V::read(raw)?;
        Ok(())
    }
}

impl<V: Value> Field for Option<V> {
    fn put(&self, tag: u16, out: &mut Vec<u8>) {
        if let Some(value) = self {
            put_value(tag, value, out);
        }
    }

    fn take(&mut self, raw: &[u8]) -> Result<(), Malformed> {
        *self = Some(V::read(raw)?);
        Ok(())
    }
}

impl<V: Value> Field for Vec<V> {
    fn put(&self, tag: u16, out: &mut Vec<u8>) {
        for value in self {
            put_value(tag, value, out);
        }
    }

    fn take(&mut self, raw: &[u8]) -> Result<(), Malformed> {
        self.push(V::read(raw)?);
        Ok(())
    }
}

fn put_value<V: Value>(tag: u16, value: &V, out: &mut Vec<u8>) {
    out.extend_from_slice(&tag.to_le_bytes());
    let length_at = out.len();
    out.extend_from_slice(&[0; 4]);
    value.write(out);
    let length = (out.len() - length_at - 4) as u32;
    out[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
}

/// Walks the fields of a payload.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u16, &'a [u8]), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let Some((head, rest)) = self.0.split_first_chunk::<6>() else {
            self.0 = &[];
            return Some(Err(Malformed::Truncated));
        };
        let tag = u16::from_le_bytes([head[0], head[1]]);
        let length = u32::from_le_bytes([head[2], head[3], head[4], head[5]]) as usize;
        let Some((raw, rest)) = rest.split_at_checked(length) else {
            self.0 = &[];
            return Some(Err(Malformed::Truncated));
        };
        self.0 = rest;
        Some(Ok((tag, raw)))
    }
}

fn read_unsigned(raw: &[u8]) -> Result<u64, Malformed> {
    if raw.is_empty() || raw.len() > 8 {
        return Err(Malformed::Number);
    }
    let mut bytes = [0; 8];
    bytes[..raw.len()].copy_from_slice(raw);
    Ok(u64::from_le_bytes(bytes))
}

macro_rules! unsigned {
    ($($type:ty),*) => {$(
        impl Value for $type {
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn read(raw: &[u8]) -> Result<Self, Malformed> {
                <$type>::try_from(read_unsigned(raw)?).map_err(|_| Malformed::Number)
            }
        }
    )*};
}
unsigned!(u16, u32, u64);

impl Value for i32 {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&i64::from(*self).to_le_bytes());
    }

    fn read(raw: &[u8]) -> Result<Self, Malformed> {
        let bytes = <[u8; 8]>::try_from(raw).map_err(|_| Malformed::Number)?;
        i32::try_from(i64::from_le_bytes(bytes)).map_err(|_| Malformed::Number)
    }
}

impl Value for bool {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn read(raw: &[u8]) -> Result<Self, Malformed> {
        Ok(read_unsigned(raw)? != 0)
    }
}

impl Value for String {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }

    fn read(raw: &[u8]) -> Result<Self, Malformed> {
        match std::str::from_utf8(raw) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(Malformed::Text),
        }
    }
}

impl Value for OsString {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }

    fn read(raw: &[u8]) -> Result<Self, Malformed> {
        Ok(OsString::from_vec(raw.to_vec()))
    }
}

impl Value for PathBuf {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_os_str().as_bytes());
    }

    fn read(raw: &[u8]) -> Result<Self, Malformed> {
        Ok(PathBuf::from(OsString::from_vec(raw.to_vec())))
    }
}
