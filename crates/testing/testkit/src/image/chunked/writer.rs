//! A layer that is packed entry by entry, with its table of contents behind it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::footer;
use super::packer::Packer;
use super::{Chunked, ChunkedLayer, Cut};
use crate::image::blob::{to_bytes, written};
use crate::image::entries::{Entry, entries};
use crate::image::{Compression, Layer, digest};

/// Files that say something of the others (eStargz): those before the first are wanted soon, or none is.
const WANTED_SOON: &str = ".prefetch.landmark";
const NOTHING_WANTED: &str = ".no.prefetch.landmark";
/// Their content.
const LANDMARK: [u8; 1] = [0xf];
/// What an archive ends with.
const END: [u8; 1024] = [0; 1024];

/// A layer under way. Of what was added it holds no more than is packed: a large layer is added bit by bit.
#[allow(
    missing_debug_implementations,
    reason = "a layer under way has nothing to show"
)]
pub struct ChunkedWriter {
    form: Chunked,
    cut: Cut,
    packer: Packer,
    blob: Vec<u8>,
    /// What is not packed yet.
    pending: Vec<u8>,
    toc: Vec<Value>,
    plain: Sha256,
    plain_bytes: u64,
}

impl ChunkedWriter {
    /// An empty layer.
    pub fn new(form: Chunked, cut: &Cut) -> Self {
        let own = form == Chunked::ZstdChunked;
        assert!(
            !own || (cut.member == 0 && cut.first.is_empty()),
            "{form:?} has no order of its own and no chunks that share a frame"
        );
        Self {
            form,
            cut: cut.clone(),
            packer: Packer::new(form.compression(), cut.level),
            blob: Vec::new(),
            pending: Vec::new(),
            toc: Vec::new(),
            plain: Sha256::new(),
            plain_bytes: 0,
        }
    }

    /// Adds all entries of an archive as they are. Its end, if it has one, is not the layer's.
    pub fn add(&mut self, archive: &[u8]) {
        for entry in entries(archive) {
            self.entry(archive, &entry);
        }
    }

    /// All that was added so far is wanted soon.
    pub fn wanted_soon(&mut self) {
        self.add(&Layer::new().file(WANTED_SOON, LANDMARK, 0o644).tar());
    }

    /// Nothing is wanted soon.
    pub fn nothing_wanted(&mut self) {
        self.add(&Layer::new().file(NOTHING_WANTED, LANDMARK, 0o644).tar());
    }

    /// The layer, with its table of contents.
    pub fn finish(mut self) -> ChunkedLayer {
        let entries = std::mem::take(&mut self.toc);
        let toc = to_bytes(&json!({ "version": 1, "entries": entries }));
        drop(entries);
        let toc_digest = digest(&toc);
        let mut annotations = match self.form.compression() {
            Compression::Gzip => self.finish_gzip(&toc),
            _ => self.finish_zstd(&toc),
        };
        if self.form != Chunked::ZstdChunked {
            let size = self.plain_bytes.to_string();
            annotations.extend([
                ("containerd.io/snapshot/stargz/toc.digest", toc_digest),
                ("io.containers.estargz.uncompressed-size", size),
            ]);
        }
        let owned = annotations.into_iter();
        ChunkedLayer {
            form: self.form,
            bytes: self.blob,
            annotations: owned.map(|(key, value)| (key.to_owned(), value)).collect(),
            diff_id: written("sha256:", &self.plain.finalize()),
            uncompressed: self.plain_bytes,
        }
    }

    pub(super) fn entry(&mut self, archive: &[u8], entry: &Entry) {
        self.write(&archive[entry.head.clone()]);
        let mut told = self.told(entry);
        let content = &archive[entry.content.clone()];
        if content.is_empty() {
            self.toc.push(told);
            return;
        }
        told["size"] = content.len().into();
        told["digest"] = digest(content).into();
        self.content(told, content);
        self.write(&archive[entry.content.end..entry.end()]);
    }

    /// An entry as the table has it, but for its content.
    fn told(&self, entry: &Entry) -> Value {
        let name = match self.form {
            Chunked::ZstdChunked => String::from_utf8_lossy(&entry.name),
            _ => String::from_utf8_lossy(entry.path()),
        };
        let mut told = json!({
            "name": name,
            "type": entry.kind,
            "mode": entry.mode & 0o7777,
            "uid": entry.uid,
            "gid": entry.gid,
            "modtime": entry.mtime,
        });
        if entry.is_directory() && !name.ends_with('/') {
            told["name"] = format!("{name}/").into();
        }
        if !entry.target.is_empty() {
            told["linkName"] = String::from_utf8_lossy(&entry.target).into();
        }
        if matches!(entry.kind, "char" | "block") {
            told["devMajor"] = entry.device.0.into();
            told["devMinor"] = entry.device.1.into();
        }
        let xattrs = entry.xattrs.iter();
        let xattrs = xattrs.map(|(name, value)| (name.clone(), BASE64_STANDARD.encode(value)));
        let xattrs: serde_json::Map<_, _> = xattrs.map(|(name, v)| (name, v.into())).collect();
        if !xattrs.is_empty() {
            told["xattrs"] = xattrs.into();
        }
        told
    }

    fn content(&mut self, mut told: Value, content: &[u8]) {
        let name = told["name"].clone();
        let first = self.toc.len();
        let own = self.form == Chunked::ZstdChunked;
        let whole = told["digest"].clone();
        let last = content.len().div_ceil(self.cut.chunk) - 1;
        for (at, piece) in content.chunks(self.cut.chunk).enumerate() {
            let inner = self.begin_chunk();
            told["offset"] = self.blob.len().into();
            if inner > 0 {
                told["innerOffset"] = inner.into();
            }
            if at > 0 {
                told["chunkOffset"] = (at * self.cut.chunk).into();
            }
            // Go's storage library tells nothing of the only chunk that it does not tell of the file, and the size of
            // all others; the others leave out the size of the last one.
            if !own || last > 0 {
                told["chunkDigest"] = match last {
                    0 => whole.clone(),
                    _ => digest(piece).into(),
                };
            }
            if if own { last > 0 } else { at < last } {
                told["chunkSize"] = piece.len().into();
            }
            if own && piece.iter().all(|byte| *byte == 0) {
                told["chunkType"] = "zeros".into();
                told["chunkSize"] = piece.len().into();
            }
            self.toc.push(told);
            told = json!({ "name": name, "type": "chunk" });
            self.write(piece);
            if own {
                self.flush();
            }
        }
        if own {
            self.toc[first]["endOffset"] = self.blob.len().into();
        }
    }

    /// How many bytes of the member in which a chunk is to be are before it.
    fn begin_chunk(&mut self) -> usize {
        if self.pending.len() >= self.cut.member {
            self.flush();
        }
        self.pending.len()
    }

    fn write(&mut self, bytes: &[u8]) {
        self.plain.update(bytes);
        self.plain_bytes += bytes.len() as u64;
        self.pending.extend_from_slice(bytes);
    }

    fn flush(&mut self) {
        if !self.pending.is_empty() {
            self.packer.pack(&self.pending, &mut self.blob);
            self.pending.clear();
        }
    }

    fn finish_gzip(&mut self, toc: &[u8]) -> Vec<(&'static str, String)> {
        self.flush();
        let offset = self.blob.len() as u64;
        // The archive goes on in what has the table, and ends with it.
        self.write(&Layer::new().file("stargz.index.json", toc, 0o444).tar());
        self.flush();
        self.blob.extend(match self.form {
            Chunked::OldStargz => footer::old_stargz(offset),
            _ => footer::estargz(offset),
        });
        Vec::new()
    }

    fn finish_zstd(&mut self, toc: &[u8]) -> Vec<(&'static str, String)> {
        self.write(&END);
        self.flush();
        let mut stored = Vec::new();
        self.packer.pack(toc, &mut stored);
        let offset = self.blob.len() as u64 + footer::FRAME_HEADER;
        let place = [offset, stored.len() as u64, toc.len() as u64];
        footer::skipped(&mut self.blob, &stored);
        if self.form == Chunked::StargzZstd {
            footer::skipped(&mut self.blob, &footer::stargz_zstd(place));
            return Vec::new();
        }
        // What else Go's storage library writes down of the headers: it is for those who make the archive again.
        let record = b"not read";
        let begin = self.blob.len() as u64 + footer::FRAME_HEADER;
        footer::skipped(&mut self.blob, record);
        let record = [begin, record.len() as u64, record.len() as u64];
        footer::skipped(&mut self.blob, &footer::zstd_chunked(place, record));
        let [offset, length, plain] = place;
        vec![
            (
                "io.github.containers.zstd-chunked.manifest-checksum",
                digest(&stored),
            ),
            (
                "io.github.containers.zstd-chunked.manifest-position",
                format!("{offset}:{length}:{plain}:1"),
            ),
        ]
    }
}
