//! Common form of an entry of all tables of contents.

use std::collections::BTreeMap;

use crate::index::PERMISSIONS;
use crate::{Kind, Mtime, Problem};

/// An entry. Its fields are not checked yet.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) is: Is<'a>,
    pub(crate) permissions: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mtime: Mtime,
    pub(crate) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// The type of an entry.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Is<'a> {
    File { size: u64 },
    Directory,
    Symlink { target: &'a [u8] },
    HardLink { target: &'a [u8] },
    Device { kind: Kind, major: u32, minor: u32 },
    Fifo,
}

/// Limit of a device's major number (Linux, `MINORBITS`).
const MAJOR: i64 = 1 << 12;
const MINOR: i64 = 1 << 20;

impl<'a> Is<'a> {
    /// Returns the type from the fields that all formats have.
    pub(crate) fn of(
        kind: &[u8],
        size: i64,
        target: &'a [u8],
        major: i64,
        minor: i64,
    ) -> Result<Self, Problem> {
        if kind == b"hardlink" {
            return Ok(Self::HardLink { target });
        }
        Ok(match Kind::named(kind).ok_or(Problem::Kind)? {
            Kind::File => Self::File {
                size: u64::try_from(size).map_err(|_| Problem::Size)?,
            },
            Kind::Directory => Self::Directory,
            Kind::Symlink => Self::Symlink { target },
            Kind::Fifo => Self::Fifo,
            kind => {
                if !(0..MAJOR).contains(&major) || !(0..MINOR).contains(&minor) {
                    return Err(Problem::Device);
                }
                Self::Device {
                    kind,
                    major: major as u32,
                    minor: minor as u32,
                }
            }
        })
    }
}

/// Returns the permission bits of a mode.
pub(crate) fn permissions(mode: i64) -> u16 {
    mode as u16 & PERMISSIONS
}

/// Checks a user or group ID. The highest number is not valid on Linux.
pub(crate) fn owner(number: i64) -> Result<u32, Problem> {
    match u32::try_from(number) {
        Ok(number) if number != u32::MAX => Ok(number),
        _ => Err(Problem::Owner),
    }
}

/// Parses a time in RFC 3339 format. An invalid or missing time becomes 1970.
pub(crate) fn mtime(text: &str) -> Mtime {
    let Ok(time) = text.parse::<jiff::Timestamp>() else {
        return Mtime::default();
    };
    let (seconds, nanoseconds) = (time.as_second(), time.subsec_nanosecond());
    // Before 1970, both are negative.
    match u32::try_from(nanoseconds) {
        Ok(nanoseconds) => Mtime {
            seconds,
            nanoseconds,
        },
        Err(_) => Mtime {
            seconds: seconds - 1,
            nanoseconds: (1_000_000_000 + nanoseconds) as u32,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_and_nanoseconds() {
        let at = |text, seconds, nanoseconds| {
            let expected = Mtime {
                seconds,
                nanoseconds,
            };
            assert_eq!(mtime(text), expected, "{text}");
        };
        at("1970-01-01T00:00:01Z", 1, 0);
        at("2024-02-29T12:00:00.000000007+01:00", 1_709_204_400, 7);
        at("1969-12-31T23:59:59.25Z", -1, 250_000_000);
        at("0001-01-01T00:00:00Z", -62_135_596_800, 0);
        at("yesterday", 0, 0);
        at("", 0, 0);
    }

    #[test]
    fn numbers_that_linux_does_not_have_are_refused() {
        assert_eq!(owner(0), Ok(0));
        assert_eq!(owner(0xffff_fffe), Ok(0xffff_fffe));
        for number in [-1, 0xffff_ffff, 1 << 32] {
            assert_eq!(owner(number), Err(Problem::Owner));
        }
        let is = |kind: &str, size, major, minor| Is::of(kind.as_bytes(), size, b"", major, minor);
        assert!(is("char", 0, 4095, (1 << 20) - 1).is_ok());
        for (major, minor) in [(4096, 0), (0, 1 << 20), (-1, 0), (0, -1)] {
            assert_eq!(is("block", 0, major, minor).err(), Some(Problem::Device));
        }
        assert_eq!(is("reg", -1, 0, 0).err(), Some(Problem::Size));
        assert_eq!(is("socket", 0, 0, 0).err(), Some(Problem::Kind));
        assert_eq!(is("", 0, 0, 0).err(), Some(Problem::Kind));
    }
}
