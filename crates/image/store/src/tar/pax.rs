//! Extended headers of POSIX.1-2001 (pax): `LENGTH KEY=VALUE\n` records.

use super::entry::{Mtime, Segment};

/// The values of an extended header for the next entry.
#[derive(Debug, Default, Clone)]
pub(crate) struct Extended {
    pub(crate) path: Option<Vec<u8>>,
    pub(crate) link: Option<Vec<u8>>,
    pub(crate) size: Option<u64>,
    pub(crate) uid: Option<u64>,
    pub(crate) gid: Option<u64>,
    pub(crate) mtime: Option<Mtime>,
    pub(crate) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) sparse: SparseKeys,
}

/// The `GNU.sparse.*` keys, versions 0.0, 0.1 and 1.0.
#[derive(Debug, Default, Clone)]
pub(crate) struct SparseKeys {
    pub(crate) major: Option<u64>,
    pub(crate) minor: Option<u64>,
    pub(crate) name: Option<Vec<u8>>,
    pub(crate) size: Option<u64>,
    pub(crate) map: Option<Vec<Segment>>,
}

const XATTR: &[u8] = b"SCHILY.xattr.";

impl Extended {
    /// Parses the records of one extended header.
    pub(crate) fn parse(mut records: &[u8]) -> Result<Self, String> {
        let mut extended = Self::default();
        let mut offset = None;
        while !records.is_empty() && records[0] != 0 {
            let (key, value, rest) = record(records).ok_or("a pax record is malformed")?;
            extended.apply(key, value, &mut offset)?;
            records = rest;
        }
        Ok(extended)
    }

    fn apply(&mut self, key: &[u8], value: &[u8], offset: &mut Option<u64>) -> Result<(), String> {
        let wrong = || {
            format!(
                "pax record {:?} has an invalid value",
                String::from_utf8_lossy(key)
            )
        };
        let count = || decimal(value).ok_or_else(wrong);
        match key {
            b"path" => self.path = some_text(value).map_err(|()| wrong())?,
            b"linkpath" => self.link = some_text(value).map_err(|()| wrong())?,
            // An empty value cancels the value of a global header.
            b"size" if !value.is_empty() => self.size = Some(count()?),
            b"uid" if !value.is_empty() => self.uid = Some(count()?),
            b"gid" if !value.is_empty() => self.gid = Some(count()?),
            b"mtime" if !value.is_empty() => self.mtime = Some(time(value).ok_or_else(wrong)?),
            b"GNU.sparse.major" => self.sparse.major = Some(count()?),
            b"GNU.sparse.minor" => self.sparse.minor = Some(count()?),
            b"GNU.sparse.name" => self.sparse.name = some_text(value).map_err(|()| wrong())?,
            b"GNU.sparse.size" | b"GNU.sparse.realsize" => self.sparse.size = Some(count()?),
            b"GNU.sparse.map" => self.sparse.map = Some(map(value).ok_or_else(wrong)?),
            b"GNU.sparse.offset" => *offset = Some(count()?),
            b"GNU.sparse.numbytes" => {
                let offset = offset.take().ok_or_else(wrong)?;
                let length = count()?;
                self.sparse
                    .map
                    .get_or_insert_default()
                    .push(Segment { offset, length });
            }
            _ => {
                if let Some(name) = key.strip_prefix(XATTR) {
                    if name.is_empty() || name.contains(&0) {
                        return Err(wrong());
                    }
                    self.xattrs.push((name.to_vec(), value.to_vec()));
                }
            }
        }
        Ok(())
    }
}

/// Splits off the first record.
fn record(records: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = records.iter().take(20).position(|byte| *byte == b' ')?;
    let length = usize::try_from(decimal(&records[..space])?).ok()?;
    let body = records.get(space + 1..length)?;
    let (newline, body) = body.split_last()?;
    let equals = body.iter().position(|byte| *byte == b'=')?;
    (*newline == b'\n' && equals > 0)
        .then(|| (&body[..equals], &body[equals + 1..], &records[length..]))
}

fn some_text(value: &[u8]) -> Result<Option<Vec<u8>>, ()> {
    if value.contains(&0) {
        return Err(());
    }
    Ok((!value.is_empty()).then(|| value.to_vec()))
}

/// `offset,length,offset,length,…`
fn map(value: &[u8]) -> Option<Vec<Segment>> {
    if value.is_empty() {
        return Some(Vec::new());
    }
    let numbers: Vec<u64> = value
        .split(|byte| *byte == b',')
        .map(decimal)
        .collect::<Option<_>>()?;
    let pairs = numbers.chunks_exact(2);
    pairs.remainder().is_empty().then(|| {
        pairs
            .map(|pair| Segment {
                offset: pair[0],
                length: pair[1],
            })
            .collect()
    })
}

pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |value, digit| match digit {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    })
}

/// Parses seconds with an optional fraction, which may be negative.
fn time(text: &[u8]) -> Option<Mtime> {
    let (negative, text) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut parts = text.splitn(2, |byte| *byte == b'.');
    let seconds = i64::try_from(decimal(parts.next()?)?).ok()?;
    let mut nanoseconds = 0_u32;
    if let Some(fraction) = parts.next() {
        if !fraction.iter().all(u8::is_ascii_digit) {
            return None;
        }
        for at in 0..9 {
            let digit = fraction.get(at).map_or(0, |byte| byte - b'0');
            nanoseconds = nanoseconds * 10 + u32::from(digit);
        }
    }
    Some(match (negative, nanoseconds) {
        (false, _) => Mtime {
            seconds,
            nanoseconds,
        },
        (true, 0) => Mtime {
            seconds: -seconds,
            nanoseconds: 0,
        },
        // The kernel counts nanoseconds forward from the next lower second.
        (true, _) => Mtime {
            seconds: -seconds - 1,
            nanoseconds: 1_000_000_000 - nanoseconds,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Vec<u8> {
        let mut length = text.len() + 3;
        while format!("{length} {text}\n").len() != length {
            length += 1;
        }
        format!("{length} {text}\n").into_bytes()
    }

    #[test]
    fn records_are_read() {
        let text = [
            line("path=a/b"),
            line("mtime=12.5"),
            line("SCHILY.xattr.user.k=v=\n"),
        ]
        .concat();
        let extended = Extended::parse(&text).unwrap();
        assert_eq!(extended.path.as_deref(), Some(&b"a/b"[..]));
        assert_eq!(
            extended.mtime,
            Some(Mtime {
                seconds: 12,
                nanoseconds: 500_000_000
            })
        );
        assert_eq!(extended.xattrs, [(b"user.k".to_vec(), b"v=\n".to_vec())]);
    }

    #[test]
    fn times_before_the_epoch() {
        assert_eq!(
            time(b"-1.25"),
            Some(Mtime {
                seconds: -2,
                nanoseconds: 750_000_000
            })
        );
        assert_eq!(
            time(b"-3"),
            Some(Mtime {
                seconds: -3,
                nanoseconds: 0
            })
        );
        assert_eq!(time(b"1.x"), None);
    }

    #[test]
    fn malformed_records_are_refused() {
        for text in [
            &b"9 path=a"[..],
            b"99999999999999999999999 a=b\n",
            b"0 a=b\n",
            b"3 \n",
            b"xx a=b\n",
            b"6 =ab\n",
            b"11 path=a\0b\n",
            b"12 size=-100\n",
        ] {
            assert!(
                Extended::parse(text).is_err(),
                "{:?}",
                String::from_utf8_lossy(text)
            );
        }
    }
}
