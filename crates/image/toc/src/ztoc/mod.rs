//! Ztoc: a FlatBuffer with a layer's files and spans.

mod checkpoints;
mod flat;

use std::collections::BTreeMap;

use checkpoints::Checkpoint;
use flat::{Outside, Table};

use crate::error::at_most;
use crate::index::{Draft, DraftSpan, Storage, write};
use crate::tree::{Entry, Is, Tree, mtime, owner, permissions};
use crate::{Digest, Error, Index, Limits, Problem, Result};

/// Field numbers of a ztoc's tables, from its schema.
mod field {
    pub(super) const VERSION: usize = 0;
    pub(super) const COMPRESSED_SIZE: usize = 2;
    pub(super) const UNCOMPRESSED_SIZE: usize = 3;
    pub(super) const TOC: usize = 4;
    pub(super) const COMPRESSION: usize = 5;

    pub(super) mod toc {
        pub(crate) const FILES: usize = 0;
    }
    pub(super) mod compression {
        pub(crate) const ALGORITHM: usize = 0;
        pub(crate) const LAST_SPAN: usize = 1;
        pub(crate) const DIGESTS: usize = 2;
        pub(crate) const CHECKPOINTS: usize = 3;
    }
    pub(super) mod file {
        pub(crate) const NAME: usize = 0;
        pub(crate) const TYPE: usize = 1;
        pub(crate) const OFFSET: usize = 2;
        pub(crate) const SIZE: usize = 3;
        pub(crate) const TARGET: usize = 4;
        pub(crate) const MODE: usize = 5;
        pub(crate) const UID: usize = 6;
        pub(crate) const GID: usize = 7;
        pub(crate) const MTIME: usize = 10;
        pub(crate) const MAJOR: usize = 11;
        pub(crate) const MINOR: usize = 12;
        pub(crate) const RECORDS: usize = 13;
    }
    pub(super) mod record {
        pub(crate) const KEY: usize = 0;
        pub(crate) const VALUE: usize = 1;
    }
    pub(super) mod plain {
        pub(crate) const SPAN_SIZE: usize = 1;
        pub(crate) const SIZE: usize = 2;
    }
}

const VERSION: &[u8] = b"0.9";
const GZIP: i8 = 1;
const UNCOMPRESSED: i8 = 2;
/// Prefix of the PAX records that contain extended attributes.
const XATTR: &[u8] = b"SCHILY.xattr.";
/// Prefix of the PAX records of sparse files, whose content differs from the stored bytes.
const SPARSE: &[u8] = b"GNU.sparse.";
/// Maximum average number of records per entry.
const RECORDS: u64 = 8;

impl From<Outside> for Error {
    fn from(_: Outside) -> Self {
        Self::Ztoc("an offset points outside of it")
    }
}

/// Builds an index from the ztoc of a layer of the given size.
pub(crate) fn index(ztoc: &[u8], layer: u64, limits: &Limits) -> Result<Index<Vec<u8>>> {
    let root = Table::root(ztoc)?;
    if root.bytes(field::VERSION)? != VERSION {
        return Err(Error::Ztoc("its version is not 0.9"));
    }
    if u64::try_from(root.long(field::COMPRESSED_SIZE)?) != Ok(layer) {
        return Err(Error::Ztoc("it is for a layer of another size"));
    }
    let size = u64::try_from(root.long(field::UNCOMPRESSED_SIZE)?)
        .map_err(|_| Error::Ztoc("the size of the archive is negative"))?;
    let (Some(toc), Some(compression)) = (root.table(field::TOC)?, root.table(field::COMPRESSION)?)
    else {
        return Err(Error::Ztoc("it has no files or no spans"));
    };
    let mut tree = Tree::new(limits);
    files(&mut tree, toc, size, limits)?;
    let digests = compression.vector(field::compression::DIGESTS)?;
    let last = compression.int(field::compression::LAST_SPAN)?;
    if i64::from(last) != digests.len() as i64 - 1 {
        return Err(Error::Ztoc("it does not have one digest for each span"));
    }
    at_most("spans", digests.len() as u64, limits.chunks.into())?;
    let digests = digests.strings().map(|text| {
        let text = str::from_utf8(text?).ok().and_then(Digest::parse);
        text.ok_or(Error::Ztoc("a span has no sha256 digest"))
    });
    let digests = digests.collect::<Result<Vec<_>>>()?;
    let checkpoints = compression.bytes(field::compression::CHECKPOINTS)?;
    match compression.byte(field::compression::ALGORITHM, GZIP)? {
        GZIP => {
            let mut draft = tree.finish(Storage::Spans, layer)?;
            let checkpoints = checkpoints::read(checkpoints, layer, limits)?;
            spans(&mut draft, &checkpoints, &digests, size)?;
            draft.windows = checkpoints.iter().map(|at| at.window).collect();
            checked(draft, limits)
        }
        UNCOMPRESSED => {
            let mut draft = tree.finish(Storage::Plain, layer)?;
            if size > layer {
                return Err(Error::Ztoc("the archive is larger than the layer"));
            }
            plain(&mut draft, checkpoints, &digests, limits)?;
            checked(draft, limits)
        }
        _ => Err(Error::Ztoc("the compression of its layer is not supported")),
    }
}

fn files(tree: &mut Tree<'_>, toc: Table<'_>, size: u64, limits: &Limits) -> Result<()> {
    let mut records = 0;
    for file in toc.vector(field::toc::FILES)?.tables() {
        let file = file?;
        let name = file.bytes(field::file::NAME)?;
        let bad = |problem| Error::entry(name, problem);
        let listed = file.vector(field::file::RECORDS)?;
        records += listed.len() as u64;
        at_most(
            "records of extended headers",
            records,
            RECORDS * u64::from(limits.entries),
        )?;
        let mut xattrs = BTreeMap::new();
        let mut bytes = 0;
        for record in listed.tables() {
            let record = record?;
            let key = record.bytes(field::record::KEY)?;
            if key.starts_with(SPARSE) {
                return Err(bad(Problem::Sparse));
            }
            if let Some(key) = key.strip_prefix(XATTR) {
                let value = record.bytes(field::record::VALUE)?;
                bytes += key.len() + value.len();
                if bytes > limits.xattrs as usize {
                    return Err(bad(Problem::Xattrs));
                }
                xattrs.insert(key.to_vec(), value.to_vec());
            }
        }
        let is = Is::of(
            file.bytes(field::file::TYPE)?,
            file.long(field::file::SIZE)?,
            file.bytes(field::file::TARGET)?,
            file.long(field::file::MAJOR)?,
            file.long(field::file::MINOR)?,
        );
        let time = file.bytes(field::file::MTIME)?;
        let entry = Entry {
            name,
            is: is.map_err(bad)?,
            permissions: permissions(file.long(field::file::MODE)?),
            uid: owner(file.unsigned(field::file::UID)?.into()).map_err(bad)?,
            gid: owner(file.unsigned(field::file::GID)?.into()).map_err(bad)?,
            mtime: mtime(str::from_utf8(&time[..time.len().min(64)]).unwrap_or_default()),
            xattrs,
        };
        let node = tree.add(&entry)?;
        if let (Is::File { size: length @ 1.. }, Some(node)) = (entry.is, node) {
            let begin = u64::try_from(file.long(field::file::OFFSET)?).ok();
            let inside = |begin: &u64| begin.checked_add(length).is_some_and(|end| end <= size);
            let begin = begin.filter(inside).ok_or(bad(Problem::Outside))?;
            tree.place(node, begin as u32, (begin >> 32) as u32);
        }
    }
    Ok(())
}

/// Creates spans from one checkpoint to the next; the last one reaches to the archive's end.
fn spans(
    draft: &mut Draft<'_>,
    checkpoints: &[Checkpoint<'_>],
    digests: &[Digest],
    size: u64,
) -> Result<()> {
    if checkpoints.len() != digests.len() {
        return Err(Error::Ztoc("it does not have one digest for each span"));
    }
    let both = checkpoints.iter().zip(digests);
    draft.spans = both
        .map(|(at, digest)| DraftSpan {
            offset: at.offset,
            out: at.out,
            bits: at.bits,
            digest: *digest,
        })
        .collect();
    // The stream may continue after the archive's end; that part is not counted.
    let end = checkpoints.last().map_or(size, |last| last.out.max(size));
    draft.spans.push(DraftSpan {
        offset: draft.blob,
        out: end,
        bits: 0,
        digest: Digest([0; 32]),
    });
    Ok(())
}

/// Creates the spans of an uncompressed layer: all have the same size except the last.
fn plain(draft: &mut Draft<'_>, told: &[u8], digests: &[Digest], limits: &Limits) -> Result<()> {
    let told = Table::root(told)?;
    let apart = u64::try_from(told.long(field::plain::SPAN_SIZE)?).unwrap_or_default();
    let size = u64::try_from(told.long(field::plain::SIZE)?);
    if apart == 0 || size != Ok(draft.blob) {
        return Err(Error::Ztoc("its spans do not match the layer"));
    }
    let count = draft.blob.div_ceil(apart);
    at_most("spans", count, limits.chunks.into())?;
    if count != digests.len() as u64 {
        return Err(Error::Ztoc("it does not have one digest for each span"));
    }
    let end = Digest([0; 32]);
    let places = (0..=count).map(|at| (at * apart).min(draft.blob));
    let both = places.zip(digests.iter().chain([&end]));
    draft.spans = both
        .map(|(at, digest)| DraftSpan {
            offset: at,
            out: at,
            bits: 0,
            digest: *digest,
        })
        .collect();
    Ok(())
}

/// Returns the index, if no span exceeds the limit.
fn checked(draft: Draft<'_>, limits: &Limits) -> Result<Index<Vec<u8>>> {
    let most = u64::from(limits.chunk);
    for pair in draft.spans.windows(2) {
        at_most("bytes of a span", pair[1].out - pair[0].out, most)?;
        at_most(
            "bytes of a compressed span",
            pair[1].offset - pair[0].offset,
            most,
        )?;
    }
    write(draft)
}
