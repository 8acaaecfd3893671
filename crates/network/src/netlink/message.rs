//! Netlink messages: a header, a fixed part, and attributes.

use std::io;

/// Bytes before the fixed part: `struct nlmsghdr`.
pub(crate) const HEADER: usize = 16;

/// Marks an attribute that holds attributes.
const NESTED: u16 = 0x8000;

/// A message under construction.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    bytes: Vec<u8>,
    /// Whether an attribute exceeds the maximum of its length field.
    is_too_long: bool,
}

impl Message {
    pub(crate) fn new(kind: u16, flags: i32) -> Self {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&((flags | libc::NLM_F_REQUEST) as u16).to_ne_bytes());
        bytes.extend_from_slice(&[0; 8]);
        Self {
            bytes,
            is_too_long: false,
        }
    }

    /// Returns the message's type.
    pub(crate) fn kind(&self) -> u16 {
        u16::from_ne_bytes([self.bytes[4], self.bytes[5]])
    }

    /// Appends bytes to the fixed part.
    pub(crate) fn fixed(mut self, part: &[u8]) -> Self {
        self.bytes.extend_from_slice(part);
        self
    }

    pub(crate) fn attr(mut self, kind: u16, payload: &[u8]) -> Self {
        self.push(kind, payload);
        self
    }

    /// Appends a string with its final NUL.
    pub(crate) fn attr_str(mut self, kind: u16, text: &str) -> Self {
        let start = self.open(kind);
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
        self.close(start);
        self
    }

    pub(crate) fn attr_u8(self, kind: u16, value: u8) -> Self {
        self.attr(kind, &[value])
    }

    pub(crate) fn attr_u32(self, kind: u16, value: u32) -> Self {
        self.attr(kind, &value.to_ne_bytes())
    }

    /// Appends a number in network byte order, as nf_tables requires.
    pub(crate) fn attr_be32(self, kind: u16, value: u32) -> Self {
        self.attr(kind, &value.to_be_bytes())
    }

    pub(crate) fn attr_be64(self, kind: u16, value: u64) -> Self {
        self.attr(kind, &value.to_be_bytes())
    }

    /// Appends an attribute that contains attributes.
    pub(crate) fn nest(mut self, kind: u16, fill: impl FnOnce(Self) -> Self) -> Self {
        let start = self.open(kind | NESTED);
        self = fill(self);
        self.close(start);
        self
    }

    /// Appends an attribute that contains a fixed part and then attributes.
    pub(crate) fn nest_after(
        mut self,
        kind: u16,
        fixed: &[u8],
        fill: impl FnOnce(Self) -> Self,
    ) -> Self {
        let start = self.open(kind);
        self.bytes.extend_from_slice(fixed);
        self = fill(self);
        self.close(start);
        self
    }

    /// Returns the bytes of the finished message.
    pub(crate) fn finish(mut self, sequence: u32, more_flags: i32) -> io::Result<Vec<u8>> {
        if self.is_too_long {
            let problem = "a netlink attribute is longer than 65,535 bytes";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        let length = (self.bytes.len() as u32).to_ne_bytes();
        self.bytes[..4].copy_from_slice(&length);
        let flags = u16::from_ne_bytes([self.bytes[6], self.bytes[7]]) | more_flags as u16;
        self.bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        Ok(self.bytes)
    }

    fn push(&mut self, kind: u16, payload: &[u8]) {
        let start = self.open(kind);
        self.bytes.extend_from_slice(payload);
        self.close(start);
    }

    fn open(&mut self, kind: u16) -> usize {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 2]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        start
    }

    fn close(&mut self, start: usize) {
        let length = u16::try_from(self.bytes.len() - start).unwrap_or_else(|_| {
            self.is_too_long = true;
            0
        });
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// Iterator over the attributes in a part of a message; ends at the first malformed one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attributes<'a>(pub(crate) &'a [u8]);

impl<'a> Attributes<'a> {
    /// Returns the payload of the first attribute of a kind.
    pub(crate) fn get(self, kind: u16) -> Option<&'a [u8]> {
        self.into_iter()
            .find(|(k, _)| *k == kind)
            .map(|(_, payload)| payload)
    }

    /// Returns the attributes inside an attribute.
    pub(crate) fn inner(self, kind: u16) -> Attributes<'a> {
        Attributes(self.get(kind).unwrap_or_default())
    }

    pub(crate) fn u32(self, kind: u16) -> Option<u32> {
        Some(u32::from_ne_bytes(
            self.get(kind)?.get(..4)?.try_into().ok()?,
        ))
    }

    pub(crate) fn text(self, kind: u16) -> Option<&'a str> {
        let bytes = self.get(kind)?;
        let end = bytes
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(bytes.len());
        std::str::from_utf8(&bytes[..end]).ok()
    }
}

impl<'a> IntoIterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);
    type IntoIter = AttributeIter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        AttributeIter(self.0)
    }
}

#[derive(Debug)]
pub(crate) struct AttributeIter<'a>(&'a [u8]);

impl<'a> Iterator for AttributeIter<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from(u16::from_ne_bytes(self.0.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(self.0.get(2..4)?.try_into().ok()?) & !0xc000;
        let payload = self.0.get(4..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_together_comes_apart() {
        let bytes = Message::new(16, 0)
            .fixed(&[0; 16])
            .attr_str(3, "eth0")
            .nest(18, |m| m.attr_str(1, "veth").attr_u32(2, 7))
            .attr_u8(4, 1)
            .finish(9, libc::NLM_F_ACK)
            .unwrap();
        assert_eq!(
            bytes.len() as u32,
            u32::from_ne_bytes(bytes[..4].try_into().unwrap())
        );
        let attributes = Attributes(&bytes[32..]);
        assert_eq!(attributes.text(3), Some("eth0"));
        assert_eq!(attributes.inner(18).text(1), Some("veth"));
        assert_eq!(attributes.inner(18).u32(2), Some(7));
        assert_eq!(attributes.get(4), Some(&[1_u8][..]));
    }

    #[test]
    fn an_attribute_that_is_too_long_fails_the_message() {
        let nested = |count: usize| {
            let fill = |message| (0..count).fold(message, |m: Message, _| m.attr(1, &[0; 1020]));
            Message::new(16, 0).nest(18, fill).finish(1, 0)
        };
        nested(63).unwrap();
        nested(64).unwrap_err();
    }

    #[test]
    fn malformed_attributes_end_the_list() {
        for bytes in [&[1_u8, 0][..], &[3, 0, 1, 0], &[255, 0, 1, 0, 9]] {
            assert_eq!(Attributes(bytes).into_iter().count(), 0);
        }
    }
}
