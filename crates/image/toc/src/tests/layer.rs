//! Layers of eStargz and zstd:chunked for the tests.

use std::io::Write as _;

use base64::Engine as _;
use serde_json::{Value, json};

use super::archive;
use crate::{Claim, Compression, Digest, Index, Limits, Result, Step};

/// The formats with a table of contents in the layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    EStargz,
    OldStargz,
    /// As written by Go's storage library.
    ZstdChunked,
    /// As written by tools that also write eStargz.
    StargzZstd,
}

pub(super) const FORMATS: [Format; 4] = [
    Format::EStargz,
    Format::OldStargz,
    Format::ZstdChunked,
    Format::StargzZstd,
];

/// A layer under construction.
pub(super) struct Writer {
    format: Format,
    pub(super) blob: Vec<u8>,
    /// Data that is not compressed yet.
    pending: Vec<u8>,
    pub(super) entries: Vec<Value>,
    /// Whether content of files shares members with earlier content.
    pub(super) shared: bool,
}

/// A layer, and the claims of its manifest.
pub(super) struct Layer {
    pub(super) compression: Compression,
    pub(super) blob: Vec<u8>,
    pub(super) annotations: Vec<(String, String)>,
}

impl Writer {
    pub(super) fn new(format: Format) -> Self {
        Self {
            format,
            blob: Vec::new(),
            pending: Vec::new(),
            entries: Vec::new(),
            shared: false,
        }
    }

    fn is_zstd(&self) -> bool {
        matches!(self.format, Format::ZstdChunked | Format::StargzZstd)
    }

    fn flush(&mut self) {
        if !self.pending.is_empty() {
            let member = compress(self.is_zstd(), &self.pending);
            self.blob.extend(member);
            self.pending.clear();
        }
    }

    /// Adds an entry without content.
    pub(super) fn plain(&mut self, kind: &str, name: &str, more: Value) {
        self.pending.extend(archive::header(name, 0));
        let mut entry = json!({"name": name, "type": kind, "mode": 0o644, "uid": 1, "gid": 2,
            "modtime": "2024-01-02T03:04:05Z"});
        merge(&mut entry, more);
        self.entries.push(entry);
    }

    /// Adds a file, in chunks of the given size.
    pub(super) fn file(&mut self, name: &str, content: &[u8], chunk: usize) {
        self.pending.extend(archive::header(name, content.len()));
        let whole = Digest::of(content).to_string();
        let mut entry = json!({"name": name, "type": "reg", "mode": 0o755, "size": content.len(),
            "modtime": "2024-01-02T03:04:05Z", "digest": whole});
        let first = self.entries.len();
        if content.is_empty() {
            self.entries.push(entry);
            return;
        }
        let last_of_all = content.len().div_ceil(chunk) - 1;
        for (at, piece) in content.chunks(chunk).enumerate() {
            let (mut offset, mut inner) = (0, self.pending.len());
            if !self.shared {
                self.flush();
                (offset, inner) = (self.blob.len(), 0);
            }
            let mut place = json!({"offset": offset});
            if inner > 0 {
                place["innerOffset"] = inner.into();
            }
            let one = last_of_all == 0;
            let own = self.format == Format::ZstdChunked;
            if !(own && one) {
                place["chunkDigest"] = Digest::of(piece).to_string().into();
            }
            // Go's storage library stores the size of all chunks, other tools omit that of the last one.
            if (own && !one) || at < last_of_all {
                place["chunkSize"] = piece.len().into();
            }
            if at > 0 {
                place["chunkOffset"] = (at * chunk).into();
                entry = json!({"name": name, "type": "chunk"});
            }
            merge(&mut entry, place);
            self.entries.push(entry.take());
            self.pending.extend(piece);
            if own {
                self.flush();
            }
        }
        if self.format == Format::ZstdChunked {
            self.entries[first]["endOffset"] = self.blob.len().into();
        }
        self.pending.extend(archive::padding(content.len()));
    }

    pub(super) fn finish(mut self) -> Layer {
        self.flush();
        let toc = json!({"version": 1, "entries": self.entries}).to_string();
        self.finish_with(toc.as_bytes())
    }

    /// Ends the layer with this table of contents, which may be invalid.
    pub(super) fn finish_with(mut self, toc: &[u8]) -> Layer {
        self.flush();
        let offset = self.blob.len() as u64;
        let plain = Digest::of(toc).to_string();
        if !self.is_zstd() {
            let mut file = archive::header("stargz.index.json", toc.len());
            file.extend(toc);
            file.extend(archive::padding(toc.len()));
            file.extend(archive::end());
            self.blob.extend(compress(false, &file));
            let told = format!("{offset:016x}STARGZ");
            let extra = match self.format {
                Format::OldStargz => told,
                _ => format!("SG\x16\0{told}"),
            };
            self.blob.extend([0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 255]);
            self.blob.extend((extra.len() as u16).to_le_bytes());
            self.blob.extend(extra.as_bytes());
            self.blob
                .extend([1, 0, 0, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0]);
            let annotations = vec![("containerd.io/snapshot/stargz/toc.digest".into(), plain)];
            return Layer {
                compression: Compression::Gzip,
                blob: self.blob,
                annotations,
            };
        }
        let stored = compress(true, toc);
        let checksum = Digest::of(&stored).to_string();
        self.frame(&stored);
        let mut numbers = vec![offset + 8, stored.len() as u64, toc.len() as u64, 1];
        let mut magic = *b"GnUlInUx";
        if self.format == Format::ZstdChunked {
            self.frame(b"what was in the archive's headers");
            numbers.extend([offset + 8 + stored.len() as u64 + 8, 33, 33]);
            magic = *b"GNUlInUx";
        }
        let mut footer: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        footer.extend(magic);
        self.frame(&footer);
        let position = format!("{}:{}:{}:1", offset + 8, stored.len(), toc.len());
        let annotations = match self.format {
            Format::ZstdChunked => vec![
                (
                    "io.github.containers.zstd-chunked.manifest-checksum".into(),
                    checksum,
                ),
                (
                    "io.github.containers.zstd-chunked.manifest-position".into(),
                    position,
                ),
            ],
            _ => vec![("containerd.io/snapshot/stargz/toc.digest".into(), plain)],
        };
        Layer {
            compression: Compression::Zstd,
            blob: self.blob,
            annotations,
        }
    }

    fn frame(&mut self, content: &[u8]) {
        self.blob.extend([0x50, 0x2a, 0x4d, 0x18]);
        self.blob.extend((content.len() as u32).to_le_bytes());
        self.blob.extend(content);
    }
}

impl Layer {
    /// Fetches and parses the table of contents as a node does.
    pub(super) fn index(&self, limits: &Limits) -> Result<Index<Vec<u8>>> {
        let claim = Claim::of(self.compression, |name| {
            let found = self.annotations.iter().find(|(key, _)| key == name);
            found.map(|(_, value)| value.as_str())
        });
        let claim = claim?.expect("nothing is promised");
        let length = self.blob.len() as u64;
        let toc = match claim.begin(length, limits)? {
            Step::Table(toc) => toc,
            Step::Footer(range) => claim.locate(self.fetch(range), length, limits)?,
        };
        toc.parse(self.fetch(toc.range()), limits)
    }

    pub(super) fn fetch(&self, range: std::ops::Range<u64>) -> &[u8] {
        &self.blob[range.start as usize..range.end as usize]
    }
}

/// Compresses content separately.
pub(super) fn compress(zstd: bool, content: &[u8]) -> Vec<u8> {
    if zstd {
        return zstd::stream::encode_all(content, 3).unwrap();
    }
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

pub(super) fn base64(value: &[u8]) -> String {
    base64::prelude::BASE64_STANDARD.encode(value)
}

pub(super) fn merge(value: &mut Value, more: Value) {
    if let (Some(all), Value::Object(more)) = (value.as_object_mut(), more) {
        all.extend(more);
    }
}
