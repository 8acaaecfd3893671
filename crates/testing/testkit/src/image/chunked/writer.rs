//! Writer of a layer, entry by entry, with a table of contents at the end.

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

/// Marker files (eStargz): either the files before the first marker are prioritized, or none is.
const WANTED_SOON: &str = ".prefetch.landmark";
const NOTHING_WANTED: &str = ".no.prefetch.landmark";
/// Content of the markers.
const LANDMARK: [u8; 1] = [0xf];
/// End marker of an archive.
const END: [u8; 1024] = [0; 1024];

/// A layer being written. Only unpacked data is in memory, so a large layer can be added in parts.
#[allow(
    missing_debug_implementations,
    reason = "a layer under way has nothing to show"
)]
pub struct ChunkedWriter {
    form: Chunked,
    cut: Cut,
    packer: Packer,
    blob: Vec<u8>,
    /// Data that is not packed yet.
    pending: Vec<u8>,
    toc: Vec<Value>,
    plain: Sha256,
    plain_bytes: u64,
}

impl ChunkedWriter {
    /// Creates an empty layer.
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

    /// Adds all entries of an archive, without its end marker.
    pub fn add(&mut self, archive: &[u8]) {
        for entry in entries(archive) {
            self.entry(archive, &entry);
        }
    }

    /// Marks all entries so far as prioritized.
    pub fn wanted_soon(&mut self) {
        self.add(&Layer::new().file(WANTED_SOON, LANDMARK, 0o644).tar());
    }

    /// Marks that nothing is prioritized.
    pub fn nothing_wanted(&mut self) {
        self.add(&Layer::new().file(NOTHING_WANTED, LANDMARK, 0o644).tar());
    }

    /// Returns the layer with its table of contents.
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

    /// Returns the table entry without content fields.
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
            // For a single chunk, Go's storage library omits the chunk fields; otherwise it writes the size of every
            // chunk. Other tools omit the size of the last one.
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

    /// Starts a chunk. Returns how many bytes precede it in its member.
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
        // The table is an entry of the archive, which ends after it.
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
        // Go's storage library also stores the tar headers, for tools that rebuild the archive.
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
