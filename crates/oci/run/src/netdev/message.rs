//! Netlink messages about links and addresses (`rtnetlink(7)`): a header, a fixed part, attributes.

/// Bytes of `struct nlmsghdr`.
pub(super) const HEADER: usize = 16;

/// A message that is being built.
#[derive(Debug)]
pub(super) struct Message(Vec<u8>);

impl Message {
    pub(super) fn new(kind: u16, flags: i32, fixed: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        let flags = (flags | libc::NLM_F_REQUEST) as u16;
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(fixed);
        Self(bytes)
    }

    pub(super) fn with(mut self, kind: u16, payload: &[u8]) -> Self {
        let length = (4 + payload.len()) as u16;
        self.0.extend_from_slice(&length.to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(payload);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Adds a string attribute with its final NUL.
    pub(super) fn with_text(self, kind: u16, text: &str) -> Self {
        self.with(kind, &[text.as_bytes(), &[0]].concat())
    }

    pub(super) fn finish(mut self, sequence: u32) -> Vec<u8> {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.0
    }
}

/// Reads a number of a message.
pub(super) fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_ne_bytes(bytes))
}

/// Returns the payload of the attribute with this type.
pub(super) fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?) & 0x3fff;
        let payload = bytes.get(4..length)?;
        if kind == wanted {
            return Some(payload);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_together_comes_apart() {
        let message = Message::new(16, 0, &[0; 16])
            .with_text(3, "eth0")
            .with(29, &[7]);
        let bytes = message.finish(9);
        assert_eq!(number(&bytes, 0), Some(bytes.len() as u32));
        assert_eq!(number(&bytes, 8), Some(9));
        assert_eq!(attribute(&bytes[32..], 3), Some(&b"eth0\0"[..]));
        assert_eq!(attribute(&bytes[32..], 29), Some(&[7][..]));
        assert_eq!(attribute(&bytes[32..], 30), None);
    }

    #[test]
    fn malformed_attributes_end_the_search() {
        for bytes in [&[1_u8, 0][..], &[3, 0, 1, 0], &[255, 0, 1, 0, 9], &[0; 4]] {
            assert_eq!(attribute(bytes, 1), None);
        }
    }
}
