//! Parser of archive entries, for tables of contents.

use std::collections::BTreeMap;
use std::ops::Range;

use tar::EntryType;

const BLOCK: usize = 512;
const XATTR: &str = "SCHILY.xattr.";

/// An entry with its position in the archive.
#[derive(Debug)]
pub(super) struct Entry {
    /// Name in the archive.
    pub(super) name: Vec<u8>,
    /// Type in tables of contents.
    pub(super) kind: &'static str,
    pub(super) target: Vec<u8>,
    pub(super) mode: u32,
    pub(super) uid: u64,
    pub(super) gid: u64,
    /// In RFC 3339.
    pub(super) mtime: String,
    pub(super) device: (u32, u32),
    pub(super) xattrs: BTreeMap<String, Vec<u8>>,
    /// Range of its headers, including extended ones.
    pub(super) head: Range<usize>,
    pub(super) content: Range<usize>,
}

impl Entry {
    /// Returns the normalized path, which all entries of a file share.
    pub(super) fn path(&self) -> &[u8] {
        path(&self.name)
    }

    /// Returns its end: content is padded to whole blocks.
    pub(super) fn end(&self) -> usize {
        self.content.end.next_multiple_of(BLOCK)
    }

    pub(super) fn is_directory(&self) -> bool {
        self.kind == "dir"
    }
}

/// Removes redundant prefixes and suffixes of a name.
pub(super) fn path(mut name: &[u8]) -> &[u8] {
    while let Some(rest) = name.strip_prefix(b"./").or(name.strip_prefix(b"/")) {
        name = rest;
    }
    while let Some(rest) = name.strip_suffix(b"/") {
        name = rest;
    }
    if name == b"." { b"" } else { name }
}

/// Returns all entries of an archive in order, without global headers (`pax_global_header`).
pub(super) fn entries(archive: &[u8]) -> Vec<Entry> {
    let mut found = Vec::new();
    let mut begin = 0;
    let mut reader = tar::Archive::new(archive);
    for entry in reader.entries().expect("read an archive") {
        let entry = entry.expect("read an entry of an archive");
        let at = usize::try_from(entry.raw_file_position()).expect("an archive in memory");
        if let Some(entry) = described(&entry, &archive[begin..at], begin) {
            assert!(entry.end() <= archive.len(), "the archive ends in an entry");
            begin = entry.end();
            found.push(entry);
        }
    }
    found
}

fn described(entry: &tar::Entry<'_, &[u8]>, head: &[u8], begin: usize) -> Option<Entry> {
    let kind = match entry.header().entry_type() {
        EntryType::XGlobalHeader => return None,
        EntryType::Regular | EntryType::Continuous => "reg",
        EntryType::Directory => "dir",
        EntryType::Symlink => "symlink",
        EntryType::Link => "hardlink",
        EntryType::Char => "char",
        EntryType::Block => "block",
        EntryType::Fifo => "fifo",
        other => panic!("an entry of a type that no table of contents has: {other:?}"),
    };
    let size = match kind {
        "reg" => usize::try_from(entry.size()).expect("an archive in memory"),
        _ => 0,
    };
    let records = records(head);
    let text = |key: &str| {
        records
            .get(key)
            .and_then(|value| str::from_utf8(value).ok())
    };
    let number = |key: &str| text(key).and_then(|text| text.parse::<u64>().ok());
    let header = entry.header();
    let seconds = header.mtime().expect("a header has a time");
    let mtime = text("mtime").map_or_else(|| seconds.to_string(), str::to_owned);
    let device = |number: std::io::Result<Option<u32>>| number.ok().flatten().unwrap_or_default();
    let xattrs = records.iter().filter_map(|(key, value)| {
        let name = key.strip_prefix(XATTR)?;
        Some((name.to_owned(), value.clone()))
    });
    Some(Entry {
        name: entry.path_bytes().into_owned(),
        kind,
        target: match kind {
            "symlink" | "hardlink" => entry.link_name_bytes().expect("a link leads to something"),
            _ => Vec::new().into(),
        }
        .into_owned(),
        mode: header.mode().expect("a header has a mode"),
        uid: number("uid").unwrap_or_else(|| header.uid().expect("a header has an owner")),
        gid: number("gid").unwrap_or_else(|| header.gid().expect("a header has a group")),
        mtime: rfc_3339(&mtime),
        device: (device(header.device_major()), device(header.device_minor())),
        xattrs: xattrs.collect(),
        head: begin..begin + head.len(),
        content: begin + head.len()..begin + head.len() + size,
    })
}

/// Returns the records of extended headers. Values may contain any bytes, including newlines.
fn records(mut head: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    while head.len() > BLOCK {
        let (header, rest) = head.split_at(BLOCK);
        let header = tar::Header::from_byte_slice(header);
        let size = header.size().expect("an extension has a size") as usize;
        if header.entry_type() == EntryType::XHeader {
            let mut left = &rest[..size];
            while !left.is_empty() {
                let (key, value, behind) = record(left).expect("an extension of records");
                found.insert(key, value);
                left = behind;
            }
        }
        head = &rest[size.next_multiple_of(BLOCK)..];
    }
    found
}

/// Parses the first record, and returns the rest: its length, a blank, the key, `=`, the value and a newline (POSIX).
fn record(records: &[u8]) -> Option<(String, Vec<u8>, &[u8])> {
    let blank = records.iter().position(|byte| *byte == b' ')?;
    let length: usize = str::from_utf8(&records[..blank]).ok()?.parse().ok()?;
    let (record, behind) = records.split_at_checked(length)?;
    let record = record.get(blank + 1..)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|byte| *byte == b'=')?;
    let key = String::from_utf8(record[..equals].to_vec()).ok()?;
    Some((key, record[equals + 1..].to_vec(), behind))
}

/// Converts a time in seconds with an optional fraction.
fn rfc_3339(seconds: &str) -> String {
    let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    let nanoseconds = format!("{fraction:0<9}")[..9].parse::<i32>().unwrap_or(0);
    let sign = if whole.starts_with('-') { -1 } else { 1 };
    let whole = whole.parse().expect("a time is a number");
    jiff::Timestamp::new(whole, sign * nanoseconds)
        .expect("a time of these ages")
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Layer;

    #[test]
    fn extensions_may_have_any_bytes_and_stand_beside_long_names() {
        let (value, name) = (b"a\n7 x=y\n\0", "n/".repeat(80));
        let archive = Layer::new()
            .file("before", "1", 0o644)
            .xattr("user.x", value)
            .dir(&name, 0o750)
            .tar();
        let found = entries(&archive);
        assert_eq!(found[1].xattrs["user.x"], value);
        assert_eq!(found[1].path(), name.trim_end_matches('/').as_bytes());
        assert_eq!(found[1].head.start, found[0].end());
        assert_eq!(found[1].mtime, "2023-11-14T22:13:20Z");
    }

    #[test]
    fn times_may_have_fractions() {
        assert_eq!(rfc_3339("1.5"), "1970-01-01T00:00:01.5Z");
        assert_eq!(rfc_3339("-1.25"), "1969-12-31T23:59:58.75Z");
    }
}
