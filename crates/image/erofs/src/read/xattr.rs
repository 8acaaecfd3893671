//! Extended attributes of an image.

use super::bytes::{u16_at, u32_at};
use super::{Error, Inode, Reader, Result, Source};
use crate::attributes::Xattrs;
use crate::format::{NAME, XATTR_ENTRY, XATTR_HEADER, XATTR_PREFIXES};

/// Maximum number of bytes of names and values per inode.
const BYTES: usize = 1 << 20;

impl<S: Source> Reader<S> {
    /// Returns all extended attributes of an inode. Of duplicates, the first one counts.
    pub fn xattrs(&self, inode: &Inode) -> Result<Xattrs> {
        let (begin, length) = inode.xattrs;
        let mut xattrs = Xattrs::new();
        let Some(behind_header) = (length as usize).checked_sub(XATTR_HEADER) else {
            return Ok(xattrs);
        };
        // At most 256 KiB, because of the field's width.
        let mut body = vec![0; length as usize];
        self.read_bytes(&mut body, begin)?;
        let shared = usize::from(body[4]);
        if shared * 4 > behind_header {
            return Err(Error::Corrupt("the number of shared attributes is wrong"));
        }
        let (ids, mut own) = body[XATTR_HEADER..].split_at(shared * 4);
        let mut bytes = 0;
        while own.len() >= XATTR_ENTRY {
            let entry = own
                .get(..entry_length(own))
                .ok_or(Error::Corrupt("an attribute exceeds the attribute list"))?;
            add(&mut xattrs, entry, &mut bytes)?;
            own = &own[entry.len()..];
        }
        for id in ids.chunks_exact(4) {
            let position = self.shared + u64::from(u32_at(id, 0)) * XATTR_ENTRY as u64;
            let mut head = [0; XATTR_ENTRY];
            self.read_bytes(&mut head, position)?;
            let mut entry = vec![0; entry_length(&head)];
            self.read_bytes(&mut entry, position)?;
            add(&mut xattrs, &entry, &mut bytes)?;
        }
        Ok(xattrs)
    }
}

/// Returns the size of an attribute from its header.
fn entry_length(head: &[u8]) -> usize {
    let (name, value) = (usize::from(head[0]), usize::from(u16_at(head, 2)));
    (XATTR_ENTRY + name + value).next_multiple_of(XATTR_ENTRY)
}

fn add(xattrs: &mut Xattrs, entry: &[u8], bytes: &mut usize) -> Result<()> {
    let (rest, value) = entry[XATTR_ENTRY..].split_at(usize::from(entry[0]));
    let value = &value[..usize::from(u16_at(entry, 2))];
    let (_, prefix) = XATTR_PREFIXES
        .iter()
        .find(|(index, _)| *index == entry[1])
        .ok_or(Error::Unsupported(
            "extended attributes of other namespaces",
        ))?;
    let name = [prefix, rest].concat();
    if name.len() > NAME || rest.contains(&0) {
        return Err(Error::Corrupt("the name of an attribute is not valid"));
    }
    *bytes += name.len() + value.len();
    if *bytes > BYTES {
        let limit = BYTES as u64;
        return Err(Error::TooMany(limit, "bytes of attributes of one inode"));
    }
    xattrs.entry(name).or_insert_with(|| value.to_vec());
    Ok(())
}
