//! Decoding of the kernel's requests.

/// Size of a request's header.
const HEADER_LEN: usize = 40;

/// The header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The operation.
    pub(crate) opcode: u32,
    /// The request's number, unique within the session.
    pub(crate) unique: u64,
    /// The node number of the file.
    pub(crate) node: u64,
    /// The thread that sent the request; 0 if it is outside of this PID namespace.
    pub(crate) pid: u32,
}

/// A complete request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) header: Header,
    body: &'a [u8],
}

impl<'a> Request<'a> {
    /// Parses the request at the beginning of these bytes.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let length = word32(bytes, 0)? as usize;
        let header = Header {
            opcode: word32(bytes, 4)?,
            unique: word64(bytes, 8)?,
            node: word64(bytes, 16)?,
            pid: word32(bytes, 32)?,
        };
        let body = bytes.get(HEADER_LEN..length)?;
        Some(Self { header, body })
    }

    /// Returns a 4-byte number of the request's body.
    pub(crate) fn word32(&self, at: usize) -> Option<u32> {
        word32(self.body, at)
    }

    /// Returns an 8-byte number of the request's body.
    pub(crate) fn word64(&self, at: usize) -> Option<u64> {
        word64(self.body, at)
    }

    /// Returns the name in the request's body.
    pub(crate) fn name(&self) -> Option<&'a str> {
        let end = self.body.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(&self.body[..end]).ok()
    }

    /// Returns the offset and size of a read, of a file or of a directory.
    pub(crate) fn extent(&self) -> Option<(u64, u32)> {
        Some((self.word64(8)?, self.word32(16)?))
    }

    /// Returns the nodes in a batch of forgets.
    pub(crate) fn forgotten(&self) -> impl Iterator<Item = u64> {
        let count = self.word32(0).unwrap_or(0) as usize;
        let entries = self.body.get(8..).unwrap_or_default();
        let nodes = entries.chunks_exact(16).take(count);
        nodes.filter_map(|entry| word64(entry, 0))
    }
}

fn word32(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*bytes))
}

fn word64(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuse::opcode;

    fn request(opcode: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend((HEADER_LEN as u32 + body.len() as u32).to_ne_bytes());
        bytes.extend(opcode.to_ne_bytes());
        bytes.extend(77_u64.to_ne_bytes());
        bytes.extend(16_u64.to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend(4242_u32.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(body);
        bytes
    }

    #[test]
    fn a_request_is_understood_and_what_is_cut_short_is_none() {
        let mut body = vec![0; 40];
        body[8..16].copy_from_slice(&65536_u64.to_ne_bytes());
        body[16..20].copy_from_slice(&4096_u32.to_ne_bytes());
        let bytes = request(opcode::READ, &body);
        let read = Request::parse(&bytes).unwrap();
        let expected = Header {
            opcode: opcode::READ,
            unique: 77,
            node: 16,
            pid: 4242,
        };
        assert_eq!(read.header, expected);
        assert_eq!(read.extent(), Some((65536, 4096)));
        for end in 0..bytes.len() {
            assert!(Request::parse(&bytes[..end]).is_none(), "{end}");
        }
        let mut short = bytes.clone();
        short[0..4].copy_from_slice(&39_u32.to_ne_bytes());
        assert!(Request::parse(&short).is_none());
        let nothing = request(opcode::READ, &[]);
        assert_eq!(Request::parse(&nothing).unwrap().extent(), None);
    }

    #[test]
    fn fuzzed_requests_do_not_break_the_reader() {
        let mut read = vec![0; 40];
        read[8..16].copy_from_slice(&65536_u64.to_ne_bytes());
        let mut batch = vec![2, 0, 0, 0, 0, 0, 0, 0];
        batch.extend([1; 32]);
        orlop_testkit::Fuzz::new()
            .example(request(opcode::READ, &read))
            .example(request(opcode::LOOKUP, b"sha256:abc\0"))
            .example(request(opcode::BATCH_FORGET, &batch))
            .words([&[0xff; 4][..], &[0xff; 8], &[40, 0, 0, 0]])
            .run(|input| {
                if let Some(request) = Request::parse(input) {
                    let _ = (request.name(), request.extent());
                    assert!(request.forgotten().count() <= input.len() / 16);
                }
            });
    }

    #[test]
    fn a_name_ends_with_a_zero() {
        let bytes = request(opcode::LOOKUP, b"sha256:abc\0rest");
        assert_eq!(Request::parse(&bytes).unwrap().name(), Some("sha256:abc"));
        for body in [&b"sha256"[..], b"\xff\0", b""] {
            let bytes = request(opcode::LOOKUP, body);
            assert_eq!(Request::parse(&bytes).unwrap().name(), None);
        }
    }

    #[test]
    fn a_batch_says_no_more_than_it_has() {
        let mut body = Vec::new();
        body.extend(u32::MAX.to_ne_bytes());
        body.extend([0; 4]);
        for node in [16_u64, 1, 17, 1] {
            body.extend(node.to_ne_bytes());
        }
        let bytes = request(opcode::BATCH_FORGET, &body);
        let forgotten = Request::parse(&bytes)
            .unwrap()
            .forgotten()
            .collect::<Vec<_>>();
        assert_eq!(forgotten, [16, 17]);
    }
}
