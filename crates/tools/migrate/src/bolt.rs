//! A read-only, lock-free reader of bbolt files.
//!
//! A file consists of pages. The two meta pages at its start point to the tree of buckets. A writer replaces the older
//! meta page last, and overwrites no page that the newer one refers to. So the data is consistent if the transaction
//! number is the same before and after reading.
//!
//! The content is not trusted: a page is read once, within the bounds of the file, and as far as it exists.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::{Error, Result};

const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;
const PAGE_HEADER: usize = 16;
const META_LENGTH: usize = 64;
const BUCKET_HEADER: usize = 16;
const ELEMENT: usize = 16;
const IS_BRANCH: u16 = 0x01;
const IS_LEAF: u16 = 0x02;
const IS_BUCKET: u32 = 0x01;
/// Size limit of a page with its overflow.
const LARGEST_PAGE: u64 = 64 << 20;
/// Limits of a bucket: entries, and their bytes.
const MOST_ENTRIES: usize = 1 << 20;
const MOST_BYTES: usize = 256 << 20;

/// Source of pages.
pub(crate) trait Pages {
    /// Returns the length.
    fn length(&self) -> io::Result<u64>;
    /// Fills the buffer with the bytes at an offset.
    fn fill(&self, at: u64, buffer: &mut [u8]) -> io::Result<()>;
}

impl Pages for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn fill(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(buffer, at)
    }
}

impl Pages for &[u8] {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn fill(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(at).unwrap_or(usize::MAX);
        let end = start.checked_add(buffer.len());
        match end.and_then(|end| self.get(start..end)) {
            Some(bytes) => {
                buffer.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// A database.
pub(crate) struct Bolt<P> {
    pages: P,
    what: String,
    length: u64,
    meta: Meta,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Meta {
    page_size: u64,
    root: u64,
    transaction: u64,
}

/// A bucket: a tree of pages, or inline in its entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Bucket {
    Page(u64),
    Inline(Vec<u8>),
}

/// Value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Plain(Vec<u8>),
    Bucket(Bucket),
}

impl Bolt<File> {
    /// Opens a database file.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = crate::regular::open_file(path);
        let file = file.map_err(|error| Error::at("cannot open", path, error))?;
        Self::of(file, path.display().to_string())
    }
}

impl<P: Pages> Bolt<P> {
    /// Opens a database in these pages.
    pub(crate) fn of(pages: P, what: String) -> Result<Self> {
        let length = pages.length();
        let length = length.map_err(|source| Error::Io {
            what: what.clone(),
            source,
        })?;
        let meta = newest_meta(&pages);
        let meta = meta.ok_or_else(|| Error::invalid(&what, "it is not a bbolt database"))?;
        Ok(Self {
            pages,
            what,
            length,
            meta,
        })
    }

    /// Returns whether nothing was written since it was opened.
    pub(crate) fn is_unchanged(&self) -> bool {
        newest_meta(&self.pages) == Some(self.meta)
    }

    /// Returns the bucket at a path of names.
    pub(crate) fn bucket(&self, path: &[&str]) -> Result<Option<Bucket>> {
        let mut bucket = Bucket::Page(self.meta.root);
        for name in path {
            let entries = self.entries(&bucket)?;
            let found = entries
                .into_iter()
                .find(|(key, _)| key == name.as_bytes())
                .map(|(_, value)| value);
            match found {
                Some(Value::Bucket(inner)) => bucket = inner,
                _ => return Ok(None),
            }
        }
        Ok(Some(bucket))
    }

    /// Returns all entries of a bucket, sorted by key.
    pub(crate) fn entries(&self, bucket: &Bucket) -> Result<Vec<(Vec<u8>, Value)>> {
        let mut found = Found::default();
        let first = match bucket {
            Bucket::Inline(page) => {
                self.leaf(page, &mut found)?;
                return Ok(found.entries);
            }
            Bucket::Page(first) => *first,
        };
        let mut seen = HashSet::new();
        let mut ahead = vec![first];
        while let Some(number) = ahead.pop() {
            if !seen.insert(number) {
                return Err(self.wrong(format!("page {number} contains itself")));
            }
            let page = self.page(number)?;
            if word16(&page, 8) == Some(IS_BRANCH) {
                self.branch(&page, &mut ahead)?;
            } else {
                self.leaf(&page, &mut found)?;
            }
        }
        Ok(found.entries)
    }

    fn page(&self, number: u64) -> Result<Vec<u8>> {
        let size = self.meta.page_size;
        let at = number.checked_mul(size);
        let at = at.filter(|at| at.checked_add(size).is_some_and(|end| end <= self.length));
        let at =
            at.ok_or_else(|| self.wrong(format!("page {number} is beyond the end of the file")))?;
        let mut header = [0; PAGE_HEADER];
        self.fill(at, &mut header)?;
        let more = u64::from(word32(&header, 12).unwrap_or_default());
        let length = (more + 1).saturating_mul(size);
        let is_there = at.checked_add(length).is_some_and(|end| end <= self.length);
        if length > LARGEST_PAGE || !is_there {
            return Err(self.wrong(format!("page {number} is longer than the file")));
        }
        let mut page = vec![0; length as usize];
        self.fill(at, &mut page)?;
        Ok(page)
    }

    fn fill(&self, at: u64, buffer: &mut [u8]) -> Result<()> {
        self.pages.fill(at, buffer).map_err(|source| Error::Io {
            what: self.what.clone(),
            source,
        })
    }

    fn branch(&self, page: &[u8], ahead: &mut Vec<u64>) -> Result<()> {
        let count = usize::from(word16(page, 10).unwrap_or_default());
        // Reversed, so that they are in order when taken from the end.
        for element in (0..count).rev() {
            let at = PAGE_HEADER + element * ELEMENT;
            let below = word64(page, at + 8);
            ahead.push(below.ok_or_else(|| self.wrong("a branch page is truncated"))?);
        }
        if ahead.len() > MOST_ENTRIES {
            return Err(self.wrong("it has too many pages"));
        }
        Ok(())
    }

    fn leaf(&self, page: &[u8], found: &mut Found) -> Result<()> {
        if word16(page, 8) != Some(IS_LEAF) {
            return Err(self.wrong("a page is neither a branch nor a leaf"));
        }
        let count = usize::from(word16(page, 10).unwrap_or_default());
        for element in 0..count {
            let entry = leaf_element(page, PAGE_HEADER + element * ELEMENT);
            let (key, value, is_bucket) =
                entry.ok_or_else(|| self.wrong("a leaf page is truncated"))?;
            found.bytes += key.len() + value.len();
            if found.entries.len() >= MOST_ENTRIES || found.bytes > MOST_BYTES {
                return Err(self.wrong("a bucket has too many entries"));
            }
            let value = if is_bucket {
                Value::Bucket(self.inner(value)?)
            } else {
                Value::Plain(value.to_vec())
            };
            found.entries.push((key.to_vec(), value));
        }
        Ok(())
    }

    fn inner(&self, value: &[u8]) -> Result<Bucket> {
        match word64(value, 0) {
            Some(0) if value.len() >= BUCKET_HEADER + PAGE_HEADER => {
                Ok(Bucket::Inline(value[BUCKET_HEADER..].to_vec()))
            }
            Some(root) if root > 0 => Ok(Bucket::Page(root)),
            _ => Err(self.wrong("a bucket is truncated")),
        }
    }

    fn wrong(&self, why: impl Into<String>) -> Error {
        Error::invalid(format!("the database {}", self.what), why.into())
    }
}

#[derive(Default)]
struct Found {
    entries: Vec<(Vec<u8>, Value)>,
    bytes: usize,
}

/// Returns key, value and whether it is a bucket. Offsets are relative to the element.
fn leaf_element(page: &[u8], at: usize) -> Option<(&[u8], &[u8], bool)> {
    let flags = word32(page, at)?;
    let start = at.checked_add(word32(page, at + 4)? as usize)?;
    let middle = start.checked_add(word32(page, at + 8)? as usize)?;
    let end = middle.checked_add(word32(page, at + 12)? as usize)?;
    Some((
        page.get(start..middle)?,
        page.get(middle..end)?,
        flags & IS_BUCKET != 0,
    ))
}

/// Returns the valid meta page with the latest transaction.
fn newest_meta(pages: &impl Pages) -> Option<Meta> {
    let first = meta_at(pages, 0);
    let sizes = match first {
        Some(meta) => meta.page_size.trailing_zeros()..=meta.page_size.trailing_zeros(),
        // The first one may be damaged by a power failure.
        None => 9..=16,
    };
    let second = sizes
        .map(|shift| 1_u64 << shift)
        .find_map(|size| meta_at(pages, size).filter(|meta| meta.page_size == size));
    [first, second]
        .into_iter()
        .flatten()
        .max_by_key(|meta| meta.transaction)
}

fn meta_at(pages: &impl Pages, page: u64) -> Option<Meta> {
    let mut bytes = [0; META_LENGTH];
    pages.fill(page + PAGE_HEADER as u64, &mut bytes).ok()?;
    let page_size = u64::from(word32(&bytes, 8)?);
    let is_meta = word32(&bytes, 0)? == MAGIC
        && word32(&bytes, 4)? == VERSION
        && page_size.is_power_of_two()
        && (512..=65536).contains(&page_size)
        && word64(&bytes, 56)? == fnv(&bytes[..56]);
    is_meta.then_some(Meta {
        page_size,
        root: word64(&bytes, 16)?,
        transaction: word64(&bytes, 48)?,
    })
}

/// 64-bit FNV-1a.
pub(crate) fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn word16(bytes: &[u8], at: usize) -> Option<u16> {
    let word = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_le_bytes(word.try_into().ok()?))
}

fn word32(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(word.try_into().ok()?))
}

fn word64(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(word.try_into().ok()?))
}
