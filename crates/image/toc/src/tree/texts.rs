//! Link targets and extended attributes; the latter are stored without duplicates.

use std::collections::{BTreeMap, HashMap};

use crate::error::at_most;
use crate::limits::NAME_MAX;
use crate::{Limits, Problem, Result};

/// Maximum size of an extended attribute's value (Linux, `XATTR_SIZE_MAX`).
const VALUE_MAX: usize = 64 << 10;

#[derive(Default)]
pub(super) struct Texts {
    pub(super) bytes: Vec<u8>,
    /// Number of bytes of names and of pending links, which count together with the texts.
    others: u64,
    known: HashMap<Box<[u8]>, u32>,
}

impl Texts {
    /// Counts bytes that are stored elsewhere.
    pub(super) fn count(&mut self, bytes: usize, limits: &Limits) -> Result<()> {
        self.others += bytes as u64;
        let all = self.others + self.bytes.len() as u64;
        at_most("bytes of names and texts", all, limits.texts.into())
    }

    /// Stores a text, and returns its offset.
    pub(super) fn keep(&mut self, text: &[u8], limits: &Limits) -> Result<u32> {
        let all = self.others + self.bytes.len() as u64 + text.len() as u64;
        at_most("bytes of names and texts", all, limits.texts.into())?;
        let at = self.bytes.len() as u32;
        self.bytes.extend_from_slice(text);
        Ok(at)
    }

    /// Stores extended attributes, and returns their offset plus 1; 0 if there are none.
    pub(super) fn keep_xattrs(&mut self, record: Vec<u8>, limits: &Limits) -> Result<u32> {
        if record.is_empty() {
            return Ok(0);
        }
        if let Some(at) = self.known.get(&record[..]) {
            return Ok(*at);
        }
        let at = self.keep(&record, limits)? + 1;
        self.known.insert(record.into(), at);
        Ok(at)
    }
}

/// Encodes extended attributes for the index; empty if none of them is allowed.
pub(super) fn xattrs(
    all: &BTreeMap<Vec<u8>, Vec<u8>>,
    limits: &Limits,
) -> Result<Vec<u8>, Problem> {
    let mut record = vec![0, 0];
    let mut count = 0_u16;
    for (name, value) in all.iter().filter(|(name, _)| wanted(name)) {
        if name.len() > NAME_MAX || value.len() > VALUE_MAX || name.contains(&0) {
            return Err(Problem::Xattrs);
        }
        record.extend_from_slice(&(name.len() as u16).to_le_bytes());
        record.extend_from_slice(&(value.len() as u32).to_le_bytes());
        record.extend_from_slice(name);
        record.extend_from_slice(value);
        if record.len() > limits.xattrs as usize {
            return Err(Problem::Xattrs);
        }
        count = count.checked_add(1).ok_or(Problem::Xattrs)?;
    }
    if count == 0 {
        return Ok(Vec::new());
    }
    record[..2].copy_from_slice(&count.to_le_bytes());
    Ok(record)
}

/// Reports whether an image may set an attribute. `trusted.*` controls overlayfs, and security labels belong to the
/// host.
fn wanted(name: &[u8]) -> bool {
    let user = name.starts_with(b"user.") && !name.starts_with(b"user.overlay.");
    user || matches!(
        name,
        b"security.capability"
            | b"security.ima"
            | b"system.posix_acl_access"
            | b"system.posix_acl_default"
    )
}
