//! Packets, the units of all OpenPGP data (RFC 9580, 4.2).

use std::borrow::Cow;

use crate::Error;
use crate::reader::Reader;

pub(crate) const SIGNATURE: u8 = 2;
pub(crate) const ONE_PASS: u8 = 4;
pub(crate) const SECRET_KEY: u8 = 5;
pub(crate) const PUBLIC_KEY: u8 = 6;
pub(crate) const SECRET_SUBKEY: u8 = 7;
pub(crate) const COMPRESSED: u8 = 8;
const ENCRYPTED: u8 = 9;
pub(crate) const MARKER: u8 = 10;
pub(crate) const LITERAL: u8 = 11;
pub(crate) const TRUST: u8 = 12;
pub(crate) const USER_ID: u8 = 13;
pub(crate) const PUBLIC_SUBKEY: u8 = 14;
pub(crate) const USER_ATTRIBUTE: u8 = 17;
const PROTECTED: u8 = 18;
pub(crate) const PADDING: u8 = 21;

/// Packet types of data with any length. Only these may have partial or indeterminate lengths.
const OF_DATA: [u8; 4] = [COMPRESSED, ENCRYPTED, LITERAL, PROTECTED];

/// One packet.
#[derive(Debug)]
pub(crate) struct Packet<'a> {
    /// The packet type.
    pub(crate) tag: u8,
    pub(crate) body: Cow<'a, [u8]>,
}

/// Parses all packets, with a maximum number of `most`.
pub(crate) fn packets(bytes: &[u8], most: usize) -> Result<Vec<Packet<'_>>, Error> {
    let mut reader = Reader::new(bytes);
    let mut found = Vec::new();
    while let Some(first) = reader.byte() {
        if found.len() == most {
            return Err(Error::TooLarge {
                what: "the number of packets",
                limit: most,
            });
        }
        if first & 0x80 == 0 {
            return Err(Error::NotOpenPgp("it contains data that is not a packet"));
        }
        found.push(if first & 0x40 == 0 {
            old(first, &mut reader)?
        } else {
            new(first & 0x3f, &mut reader)?
        });
    }
    Ok(found)
}

/// Parses a packet of the old format, whose first byte contains the length type.
fn old<'a>(first: u8, reader: &mut Reader<'a>) -> Result<Packet<'a>, Error> {
    let tag = (first >> 2) & 0x0f;
    let length = match first & 3 {
        0 => reader.byte().map(usize::from),
        1 => reader.u16(),
        2 => reader.u32().and_then(|length| usize::try_from(length).ok()),
        _ if OF_DATA.contains(&tag) => {
            let body = Cow::Borrowed(reader.rest());
            return Ok(Packet { tag, body });
        }
        _ => return Err(Error::Malformed("the length of a packet")),
    };
    let body = length.and_then(|length| reader.take(length));
    let body = Cow::Borrowed(body.ok_or(Error::Truncated)?);
    Ok(Packet { tag, body })
}

fn new<'a>(tag: u8, reader: &mut Reader<'a>) -> Result<Packet<'a>, Error> {
    let mut pieces: Vec<u8> = Vec::new();
    let mut in_pieces = false;
    loop {
        let (length, is_last) = length(reader).ok_or(Error::Truncated)?;
        if !is_last && !OF_DATA.contains(&tag) {
            return Err(Error::Malformed("the length of a packet"));
        }
        let piece = reader.take(length).ok_or(Error::Truncated)?;
        if is_last && !in_pieces {
            let body = Cow::Borrowed(piece);
            return Ok(Packet { tag, body });
        }
        in_pieces = true;
        pieces.extend_from_slice(piece);
        if is_last {
            let body = Cow::Owned(pieces);
            return Ok(Packet { tag, body });
        }
    }
}

/// Reads a length, and whether it is that of the packet's last part.
fn length(reader: &mut Reader<'_>) -> Option<(usize, bool)> {
    let first = reader.byte()?;
    Some(match first {
        0..192 => (first.into(), true),
        192..224 => (two_bytes(first, reader.byte()?), true),
        224..255 => (1 << (first & 0x1f), false),
        255 => (reader.u32()?.try_into().ok()?, true),
    })
}

/// Reads the length of a subpacket, which has no partial lengths.
pub(crate) fn length_of_subpacket(reader: &mut Reader<'_>) -> Option<usize> {
    let first = reader.byte()?;
    Some(match first {
        0..192 => first.into(),
        192..255 => two_bytes(first, reader.byte()?),
        255 => reader.u32()?.try_into().ok()?,
    })
}

fn two_bytes(first: u8, second: u8) -> usize {
    ((usize::from(first) - 192) << 8) + usize::from(second) + 192
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Result<Vec<(u8, usize)>, Error> {
        let packets = packets(bytes, 4)?;
        Ok(packets.iter().map(|it| (it.tag, it.body.len())).collect())
    }

    fn with(head: &[u8], length: usize) -> Vec<u8> {
        [head, &vec![7; length]].concat()
    }

    #[test]
    fn every_kind_of_length_is_understood() {
        for (head, length, tag) in [
            (&[0x88, 5][..], 5, SIGNATURE),
            (&[0x89, 1, 0], 256, SIGNATURE),
            (&[0x8a, 0, 1, 0, 0], 65536, SIGNATURE),
            (&[0xa3], 9, COMPRESSED),
            (&[0xc2, 0], 0, SIGNATURE),
            (&[0xc2, 191], 191, SIGNATURE),
            (&[0xc2, 192, 0], 192, SIGNATURE),
            (&[0xc2, 223, 255], 8383, SIGNATURE),
            (&[0xc2, 255, 0, 0, 0, 3], 3, SIGNATURE),
        ] {
            assert_eq!(
                all(&with(head, length)).unwrap(),
                [(tag, length)],
                "{head:?}"
            );
        }
        let pieces = [
            &with(&[0xcb, 0xe9], 512)[..],
            &with(&[0xe1], 2),
            &with(&[3], 3),
        ]
        .concat();
        assert_eq!(all(&pieces).unwrap(), [(LITERAL, 517)]);
    }

    #[test]
    fn what_is_no_packet_is_refused() {
        for (bytes, error) in [
            (
                &[0x00][..],
                Error::NotOpenPgp("it contains data that is not a packet"),
            ),
            (&[0xc2], Error::Truncated),
            (&[0xc2, 5, 1], Error::Truncated),
            (&[0xc2, 255, 255, 255, 255, 255], Error::Truncated),
            (&[0xcb, 0xe0, 1], Error::Truncated),
            (&[0xcb, 0xfe, 1], Error::Truncated),
            (&[0x8b, 1], Error::Malformed("the length of a packet")),
            (
                &[0xc2, 0xe0, 1, 0],
                Error::Malformed("the length of a packet"),
            ),
        ] {
            assert_eq!(all(bytes).unwrap_err(), error, "{bytes:?}");
        }
        let many = [0xc2, 0].repeat(5);
        assert!(matches!(all(&many), Err(Error::TooLarge { .. })));
    }
}
