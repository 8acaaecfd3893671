//! JSON form of an entry.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;

use crate::tree::{Entry, Is, mtime, owner, permissions};
use crate::{Digest, Problem};

/// An entry. Empty, zero and null values count as absent.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Raw {
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    size: i64,
    modtime: Option<String>,
    link_name: String,
    mode: i64,
    uid: i64,
    gid: i64,
    dev_major: i64,
    dev_minor: i64,
    xattrs: Option<BTreeMap<String, Option<String>>>,
    digest: String,
    offset: i64,
    end_offset: i64,
    inner_offset: i64,
    chunk_offset: i64,
    chunk_size: i64,
    chunk_digest: String,
    chunk_type: String,
}

/// The position of a piece of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    /// Offset in the file.
    pub(super) begin: u64,
    /// Number of bytes; `None` if it reaches to the file's end.
    pub(super) length: u64,
    pub(super) zeros: bool,
    /// Offset of its gzip member or zstd frame in the layer, and number of bytes in there before it.
    pub(super) offset: u64,
    pub(super) skip: u64,
    /// Digests of the piece, and of the file.
    pub(super) digest: Option<Digest>,
    pub(super) whole: Option<Digest>,
    /// Offset in the layer where the file's content ends; 0 if unknown.
    pub(super) end: u64,
}

impl Raw {
    pub(super) fn is_chunk(&self) -> bool {
        self.kind == "chunk"
    }

    pub(super) fn entry(&self) -> Result<Entry<'_>, Problem> {
        let kind = self.kind.as_bytes();
        let target = self.link_name.as_bytes();
        Ok(Entry {
            name: self.name.as_bytes(),
            is: Is::of(kind, self.size, target, self.dev_major, self.dev_minor)?,
            permissions: permissions(self.mode),
            uid: owner(self.uid)?,
            gid: owner(self.gid)?,
            mtime: mtime(self.modtime.as_deref().unwrap_or_default()),
            xattrs: self.xattrs()?,
        })
    }

    fn xattrs(&self) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Problem> {
        let decode = |(name, value): (&String, &Option<String>)| {
            let value = BASE64_STANDARD.decode(value.as_deref().unwrap_or_default());
            let value = value.map_err(|_| Problem::Xattrs)?;
            Ok((name.clone().into_bytes(), value))
        };
        self.xattrs.iter().flatten().map(decode).collect()
    }

    pub(super) fn piece(&self) -> Result<Piece, Problem> {
        let number = |number: i64| u64::try_from(number).map_err(|_| Problem::Outside);
        Ok(Piece {
            begin: number(self.chunk_offset)?,
            length: number(self.chunk_size)?,
            zeros: match self.chunk_type.as_str() {
                "" => false,
                "zeros" => true,
                _ => return Err(Problem::Kind),
            },
            offset: number(self.offset)?,
            skip: number(self.inner_offset)?,
            digest: Digest::parse(&self.chunk_digest),
            whole: Digest::parse(&self.digest),
            end: number(self.end_offset)?,
        })
    }
}
