//! Content of a message, compressed or not.

use std::io::Read;

use crate::Error;
use crate::reader::Reader;

/// Maximum size of a message, compressed or not.
pub const MAX_MESSAGE: usize = 64 << 10;

/// Returns the bytes of a literal packet; ignores its file name and time.
pub(crate) fn content(body: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(body);
    let _format = reader.byte()?;
    let name = reader.byte()?;
    reader.take(name.into())?;
    reader.u32()?;
    Some(reader.rest())
}

/// Decompresses a compressed packet.
pub(crate) fn unpacked(body: &[u8]) -> Result<Vec<u8>, Error> {
    let (kind, packed) = body.split_first().ok_or(Error::Truncated)?;
    let (bytes, rest) = match kind {
        0 => return Ok(packed.to_vec()),
        1 => {
            let mut decoder = flate2::bufread::DeflateDecoder::new(packed);
            (whole(&mut decoder)?, decoder.into_inner())
        }
        2 => {
            let mut decoder = flate2::bufread::ZlibDecoder::new(packed);
            (whole(&mut decoder)?, decoder.into_inner())
        }
        3 => return Err(Error::Unsupported("compression with bzip2".to_owned())),
        other => return Err(Error::Unsupported(format!("compression {other}"))),
    };
    if !rest.is_empty() {
        return Err(Error::Shape("data follows the compressed data".to_owned()));
    }
    Ok(bytes)
}

/// Reads everything, up to the maximum size of a message.
fn whole(from: &mut impl Read) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; MAX_MESSAGE + 1];
    let mut length = 0;
    loop {
        let read = from.read(&mut bytes[length..]);
        match read.map_err(|_| Error::Malformed("the compressed data"))? {
            0 => break,
            read => length += read,
        }
    }
    if length > MAX_MESSAGE {
        return Err(Error::TooLarge {
            what: "the number of unpacked bytes",
            limit: MAX_MESSAGE,
        });
    }
    bytes.truncate(length);
    Ok(bytes)
}
