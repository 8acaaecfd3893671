//! ASCII armor: keys as base64 blocks between two marker lines, with any text around them.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::Error;

const BEGIN: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
const END: &str = "-----END PGP PUBLIC KEY BLOCK-----";
const BEGIN_PRIVATE: &str = "-----BEGIN PGP PRIVATE KEY BLOCK-----";

/// Returns the packets of all public key blocks in a text; binary input is returned as it is.
pub(crate) fn keys(bytes: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    let Some(first) = bytes.first() else {
        return Err(Error::NoKey);
    };
    if is_packet(*first) {
        return Ok(vec![bytes.to_vec()]);
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|_| Error::NotOpenPgp("it begins with neither a packet nor text"))?;
    let mut blocks = Vec::new();
    let mut lines = text.lines().map(str::trim_end);
    while let Some(line) = lines.next() {
        match line {
            BEGIN => blocks.push(block(&mut lines, END)?),
            BEGIN_PRIVATE => return Err(Error::Private),
            _ => {}
        }
    }
    if blocks.is_empty() {
        return Err(Error::NotOpenPgp("it has no PUBLIC KEY BLOCK"));
    }
    Ok(blocks)
}

/// Reports whether a byte begins a packet: this bit is set in each packet, and in no text.
fn is_packet(first: u8) -> bool {
    first & 0x80 != 0
}

/// Decodes the block after its first line.
fn block<'t>(lines: &mut impl Iterator<Item = &'t str>, end: &str) -> Result<Vec<u8>, Error> {
    // The headers are not relevant; an empty line ends them.
    if !lines.any(str::is_empty) {
        return Err(Error::Armor("the empty line before its content is missing"));
    }
    let mut content = String::new();
    let mut checksum = None;
    for line in lines {
        if line == end {
            let bytes = decode(&content)?;
            return match checksum {
                Some(checksum) if decode(checksum)? != crc24(&bytes) => {
                    Err(Error::Armor("its checksum is wrong"))
                }
                _ => Ok(bytes),
            };
        }
        if checksum.is_some() {
            break;
        }
        match line.strip_prefix('=') {
            Some(sum) => checksum = Some(sum),
            None => content.push_str(line),
        }
    }
    Err(Error::Armor("it has no end"))
}

fn decode(text: &str) -> Result<Vec<u8>, Error> {
    BASE64_STANDARD
        .decode(text)
        .map_err(|_| Error::Armor("its content is not base64"))
}

/// Computes the checksum of RFC 4880, 6.1.
fn crc24(bytes: &[u8]) -> Vec<u8> {
    let mut crc: u32 = 0x00b7_04ce;
    for byte in bytes {
        crc ^= u32::from(*byte) << 16;
        for _ in 0..8 {
            crc <<= 1;
            if crc & 0x0100_0000 != 0 {
                crc ^= 0x0186_4cfb;
            }
        }
    }
    crc.to_be_bytes()[1..].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_of(content: &str) -> String {
        format!("{BEGIN}\nVersion: x\n\n{content}\n{END}\n")
    }

    #[test]
    fn every_block_of_a_text_is_read_and_bytes_are_left_alone() {
        let sum = BASE64_STANDARD.encode(crc24(b"one"));
        let one = block_of(&format!("b25l\n={sum}"));
        let text =
            format!("some words\r\n{one}between\n{}", block_of("dH\ndv")).replace('\n', "\r\n");
        assert_eq!(
            keys(text.as_bytes()).unwrap(),
            [b"one".to_vec(), b"two".to_vec()]
        );
        assert_eq!(keys(b"\x99raw").unwrap(), [b"\x99raw".to_vec()]);
    }

    #[test]
    fn the_checksum_is_that_of_the_standard() {
        // "123456789" is the usual input for check values.
        assert_eq!(crc24(b"123456789"), [0x21, 0xcf, 0x02]);
    }

    #[test]
    fn what_is_damaged_is_refused() {
        for (text, complaint) in [
            (String::new(), "no public key"),
            ("hello\n".to_owned(), "no PUBLIC KEY BLOCK"),
            (format!("{BEGIN}\nb25l\n{END}\n"), "the empty line"),
            (format!("{BEGIN}\n\nb25l\n"), "no end"),
            (block_of("b25l\n=AAAA"), "checksum"),
            (block_of("b25l\n=AAAA\nb25l"), "no end"),
            (block_of("b2*l"), "not base64"),
            (format!("{BEGIN_PRIVATE}\n\nb25l\n"), "private key"),
        ] {
            let error = keys(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(complaint), "{text:?}: {error}");
        }
        keys(b"a\xff").unwrap_err();
    }
}
