//! Extended attributes, stored with an inode or shared by many inodes.

use std::collections::BTreeMap;

use crate::attributes::Xattrs;
use crate::error::{Error, Result};
use crate::format::{NAME, XATTR_ENTRY, XATTR_HEADER, XATTR_PREFIXES};

/// Maximum number of attributes per inode, equal to the maximum number of shared ones.
const COUNT: usize = u8::MAX as usize;

/// Maximum size of an inode's attributes. The format's limit is more than twice as large.
const INODE_BYTES: usize = 128 << 10;

/// Maximum size of all shared attributes, which stay in memory until the image is finished.
const SHARED_BYTES: u32 = 1 << 20;

/// Maximum size of a shared attribute: larger ones hardly ever occur twice.
const SHARED_ENTRY: usize = 4096;

/// Reports whether the file system supports attributes with this name.
pub fn is_xattr_name(name: &[u8]) -> bool {
    split(name).is_some()
}

/// Attributes that inodes share: each is in the image once.
///
/// When the writer writes an inode, it does not know whether another one will have the same attribute. So it shares
/// each attribute while there is space. That costs four more bytes if the attribute does not occur again.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// The position of each attribute, in units of their alignment.
    ids: BTreeMap<Box<[u8]>, u32>,
    /// The position of the next one, in bytes.
    end: u32,
}

/// Whether an inode's attributes must be shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// If there is space.
    WhereRoom,
    /// All of them, because this inode has no space after it.
    All,
}

impl Shared {
    /// Encodes the attributes that follow an inode; empty if it has none.
    pub(crate) fn encode(&mut self, xattrs: &Xattrs, sharing: Sharing) -> Result<Vec<u8>> {
        if xattrs.is_empty() {
            return Ok(Vec::new());
        }
        let (mut ids, mut own, mut length) = (Vec::new(), Vec::new(), 0);
        for (index, (name, value)) in xattrs.iter().enumerate() {
            let entry = entry(name, value)?;
            length += entry.len();
            if index >= COUNT || length > INODE_BYTES {
                return Err(Error::XattrSize(name.clone()));
            }
            match self.id(&entry, sharing) {
                Some(id) => ids.push(id),
                None => own.extend(entry),
            }
        }
        let mut body = vec![0; XATTR_HEADER];
        body[4] = ids.len() as u8;
        body.extend(ids.into_iter().flat_map(u32::to_le_bytes));
        body.extend(own);
        Ok(body)
    }

    /// Encodes all shared attributes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.end as usize];
        for (entry, id) in &self.ids {
            let at = *id as usize * XATTR_ENTRY;
            bytes[at..at + entry.len()].copy_from_slice(entry);
        }
        bytes
    }

    fn id(&mut self, entry: &[u8], sharing: Sharing) -> Option<u32> {
        if let Some(id) = self.ids.get(entry) {
            return Some(*id);
        }
        let fits = entry.len() <= SHARED_ENTRY && self.end + entry.len() as u32 <= SHARED_BYTES;
        if !fits && sharing == Sharing::WhereRoom {
            return None;
        }
        let id = self.end / XATTR_ENTRY as u32;
        self.end += entry.len() as u32;
        self.ids.insert(entry.into(), id);
        Some(id)
    }
}

/// Returns the inode's field for the size of its attributes.
pub(crate) fn count_of(body: &[u8]) -> u16 {
    match body.len() {
        0 => 0,
        length => ((length - XATTR_HEADER) / XATTR_ENTRY + 1) as u16,
    }
}

/// Splits an attribute's name into its namespace and the rest.
fn split(name: &[u8]) -> Option<(u8, &[u8])> {
    let (index, rest) = XATTR_PREFIXES
        .iter()
        .find_map(|(index, prefix)| Some((*index, name.strip_prefix(*prefix)?)))?;
    let is_whole = matches!(index, 2 | 3);
    let is_good = is_whole == rest.is_empty() && name.len() <= NAME && !rest.contains(&0);
    is_good.then_some((index, rest))
}

fn entry(name: &[u8], value: &[u8]) -> Result<Vec<u8>> {
    let (index, rest) = split(name).ok_or_else(|| Error::XattrName(name.to_vec()))?;
    let size = u16::try_from(value.len()).map_err(|_| Error::XattrSize(name.to_vec()))?;
    let [low, high] = size.to_le_bytes();
    let mut entry = vec![rest.len() as u8, index, low, high];
    entry.extend(rest);
    entry.extend(value);
    entry.resize(entry.len().next_multiple_of(XATTR_ENTRY), 0);
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn xattrs(list: &[(&[u8], &[u8])]) -> Xattrs {
        let owned = list
            .iter()
            .map(|(name, value)| (name.to_vec(), value.to_vec()));
        owned.collect()
    }

    #[test]
    fn the_same_attribute_is_there_once() {
        let mut shared = Shared::default();
        let one = xattrs(&[(b"user.a", b"1"), (b"user.b", b"2")]);
        let first = shared.encode(&one, Sharing::WhereRoom).expect("encode");
        let length = shared.bytes().len();
        let second = shared.encode(&one, Sharing::WhereRoom).expect("encode");
        assert_eq!(first, second);
        assert_eq!(shared.bytes().len(), length);
        assert_eq!((first.len(), first[4], count_of(&first)), (20, 2, 3));
    }

    #[test]
    fn what_is_shared_stays_within_its_room() {
        let mut shared = Shared::default();
        for number in 0..1000_u32 {
            let value = [&number.to_le_bytes()[..], &[7; 3000]].concat();
            let one = xattrs(&[(b"user.long", &value)]);
            shared.encode(&one, Sharing::WhereRoom).expect("encode");
        }
        assert!(shared.bytes().len() <= SHARED_BYTES as usize);
        let value = xattrs(&[(b"user.long", &[8; 3000])]);
        let body = shared.encode(&value, Sharing::WhereRoom).expect("encode");
        assert_eq!((body[4], body.len()), (0, 12 + 4 + 4 + 3000));
        let body = shared.encode(&value, Sharing::All).expect("encode");
        assert_eq!((body[4], body.len()), (1, 16));
    }

    #[test]
    fn names_and_values_that_cannot_be_kept_are_refused() {
        let long = [b"user.", &[b'n'; 251][..]].concat();
        for name in [
            &b"user."[..],
            b"user",
            b"btrfs.x",
            b"",
            b"system.x",
            b"user.a\0b",
            b"system.posix_acl_accessory",
            &long,
        ] {
            assert!(!is_xattr_name(name), "{:?}", String::from_utf8_lossy(name));
        }
        let mut shared = Shared::default();
        let large = xattrs(&[(b"user.a", &vec![0; 65536])]);
        let refused = shared.encode(&large, Sharing::WhereRoom);
        assert!(matches!(refused, Err(Error::XattrSize(_))));
        let many: Xattrs = (0..256)
            .map(|number| (format!("user.{number}").into_bytes(), Vec::new()))
            .collect();
        let refused = shared.encode(&many, Sharing::WhereRoom);
        assert!(matches!(refused, Err(Error::XattrSize(_))));
    }
}
