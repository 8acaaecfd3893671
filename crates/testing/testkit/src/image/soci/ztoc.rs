//! A ztoc: the files of a gzip layer, and checkpoints of its stream.

use super::deflate::{Boundary, boundaries};
use super::flat::{Value, build};
use crate::image::digest;
use crate::image::entries::{Entry, entries};

/// Window size: the maximum distance of back references (RFC 1951).
const WINDOW: usize = 32 << 10;

/// Creates the ztoc of a gzip layer. Checkpoints are at block boundaries, each at least `apart` archive bytes after the
/// previous one.
pub fn ztoc(layer: &[u8], apart: u64) -> Vec<u8> {
    ZtocParts::new(layer, apart, |archive| {
        entries(archive).iter().map(file).collect()
    })
    .build()
}

/// Parts of a ztoc.
#[derive(Debug, Clone)]
pub struct ZtocParts {
    /// Format version.
    pub version: &'static str,
    /// Bytes of the layer.
    pub layer: i64,
    /// Bytes of its archive.
    pub size: i64,
    /// Fields of the files.
    pub files: Vec<Vec<Value>>,
    /// Compression of the layer; omitted for gzip.
    pub algorithm: Value,
    /// Number of the last span.
    pub last: i32,
    /// Digests of the spans.
    pub digests: Vec<String>,
    /// Encoded checkpoints.
    pub checkpoints: Vec<u8>,
}

impl ZtocParts {
    /// Creates the parts of [`ztoc`], with the files that `files` finds in the archive.
    pub fn new(layer: &[u8], apart: u64, files: impl FnOnce(&[u8]) -> Vec<Vec<Value>>) -> Self {
        let (archive, blocks) = boundaries(layer);
        let (checkpoints, digests) = spans(layer, &archive, &chosen(&blocks, apart), apart);
        Self {
            version: "0.9",
            layer: layer.len() as i64,
            size: archive.len() as i64,
            files: files(&archive),
            algorithm: Value::None,
            last: digests.len() as i32 - 1,
            digests,
            checkpoints,
        }
    }

    /// Encodes the ztoc.
    pub fn build(self) -> Vec<u8> {
        let files = self.files.into_iter().map(Value::Table).collect();
        build(&[
            Value::text(self.version),
            Value::text("testkit"),
            Value::Long(self.layer),
            Value::Long(self.size),
            Value::Table(vec![Value::Vector(files)]),
            Value::Table(vec![
                self.algorithm,
                Value::Int(self.last),
                Value::Vector(self.digests.iter().map(Value::text).collect()),
                Value::Bytes(self.checkpoints),
            ]),
        ])
    }
}

fn file(entry: &Entry) -> Vec<Value> {
    let record = |(name, value): (&String, &Vec<u8>)| {
        let key = Value::text(format!("SCHILY.xattr.{name}"));
        Value::Table(vec![key, Value::text(value)])
    };
    vec![
        Value::text(&entry.name),
        Value::text(entry.kind),
        Value::Long(entry.content.start as i64),
        Value::Long(entry.content.len() as i64),
        Value::text(&entry.target),
        Value::Long(i64::from(entry.mode & 0o7777)),
        Value::Int(entry.uid as i32),
        Value::Int(entry.gid as i32),
        Value::None,
        Value::None,
        Value::text(&entry.mtime),
        Value::Long(entry.device.0.into()),
        Value::Long(entry.device.1.into()),
        Value::Vector(entry.xattrs.iter().map(record).collect()),
    ]
}

/// Chooses the first block, and those far enough after the previous choice.
fn chosen(blocks: &[Boundary], apart: u64) -> Vec<Boundary> {
    let mut chosen = vec![blocks[0]];
    for block in blocks {
        if (block.out - chosen[chosen.len() - 1].out) as u64 > apart {
            chosen.push(*block);
        }
    }
    chosen
}

/// Returns the encoded checkpoints, and the digests of the spans between them.
fn spans(layer: &[u8], archive: &[u8], chosen: &[Boundary], apart: u64) -> (Vec<u8>, Vec<String>) {
    let mut packed = (chosen.len() as u32).to_le_bytes().to_vec();
    packed.extend(apart.to_le_bytes());
    let mut digests = Vec::new();
    for (at, block) in chosen.iter().enumerate() {
        // Number of bits of the previous byte that belong to the span.
        let bits = (8 - block.bit % 8) % 8;
        let offset = block.bit.div_ceil(8);
        packed.extend(offset.to_le_bytes());
        packed.extend((block.out as u64).to_le_bytes());
        packed.push(bits as u8);
        let window = &archive[block.out.saturating_sub(WINDOW)..block.out];
        packed.resize(packed.len() + WINDOW - window.len(), 0);
        packed.extend(window);
        let begin = (offset - u64::from(bits != 0)) as usize;
        let next = chosen.get(at + 1);
        let end = next.map_or(layer.len(), |next| next.bit.div_ceil(8) as usize);
        digests.push(digest(&layer[begin..end]));
    }
    (packed, digests)
}
