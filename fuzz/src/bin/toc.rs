//! Tables of contents of layers that are fetched bit by bit. The first byte chooses the format; the digests fit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use orlop_toc::soci::Manifest;
use orlop_toc::{Claim, Compression, Digest, Index, Limits, Step, Toc};

const BLOB: u64 = 1 << 20;
const LIMITS: Limits = Limits {
    fetched: 1 << 20,
    table: 1 << 20,
    entries: 500,
    chunks: 500,
    chunk: 1 << 20,
    depth: 20,
    xattrs: 1000,
    texts: 100_000,
};

fuzz_target!(|data: &[u8]| {
    let Some((format, data)) = data.split_first() else {
        return;
    };
    match format {
        0 => zstd_chunked(data),
        1 => ztoc(data),
        2 => drop(Manifest::parse(data, Digest::of(data))),
        3 => ask(Index::open(data.to_vec()).ok()),
        4 => footer(data),
        _ => {}
    }
});

/// The JSON that eStargz has, too.
fn zstd_chunked(json: &[u8]) {
    let frame = zstd::bulk::compress(json, 1).unwrap();
    let digest = Digest::of(&frame).to_string();
    let position = format!("1000:{}:{}:1", frame.len(), json.len());
    let claim = Claim::of(Compression::Zstd, |name| match name {
        "io.github.containers.zstd-chunked.manifest-checksum" => Some(digest.as_str()),
        "io.github.containers.zstd-chunked.manifest-position" => Some(position.as_str()),
        _ => None,
    });
    let claim = claim.unwrap().unwrap();
    if let Ok(Step::Table(toc)) = claim.begin(BLOB, &LIMITS) {
        parse(&toc, &frame);
    }
}

/// The last bytes of a layer. The digest is of what they lead to, which is not here.
fn footer(tail: &[u8]) {
    let digest = Digest::of(b"").to_string();
    for compression in [Compression::Gzip, Compression::Zstd] {
        let claim = Claim::of(compression, |name| {
            (name == "containerd.io/snapshot/stargz/toc.digest").then_some(digest.as_str())
        });
        let _ = claim.unwrap().unwrap().locate(tail, BLOB, &LIMITS);
    }
}

fn ztoc(data: &[u8]) {
    let (layer, digest) = (Digest::of(b"layer"), Digest::of(data));
    let size = data.len();
    let manifest = format!(
        r#"{{"config": {{"mediaType": "application/vnd.amazon.soci.index.v2+json", "digest": "{layer}", "size": 2}},
        "layers": [{{"mediaType": "application/octet-stream", "digest": "{digest}", "size": {size},
        "annotations": {{"com.amazon.soci.image-layer-digest": "{layer}"}}}}]}}"#
    );
    let manifest = Manifest::parse(manifest.as_bytes(), Digest::of(manifest.as_bytes()));
    let found = manifest.unwrap().toc(layer, BLOB, &LIMITS);
    if let Ok(Some((_, toc))) = found {
        parse(&toc, data);
    }
}

fn parse(toc: &Toc, fetched: &[u8]) {
    if let Ok(index) = toc.parse(fetched, &LIMITS) {
        index.check().unwrap();
        assert!(index.nodes() <= LIMITS.entries + 1);
        assert!(index.chunks() <= LIMITS.chunks);
        ask(Some(index));
    }
}

/// Asks an index everything. One that was harmed after it was written may refuse.
fn ask(index: Option<Index<Vec<u8>>>) {
    let Some(index) = index else { return };
    for number in 0..index.nodes().min(500) + 2 {
        let Ok(Some(node)) = index.node(number) else {
            continue;
        };
        let _ = index.target(&node);
        if let Ok(xattrs) = index.xattrs(&node) {
            xattrs.take(100).for_each(|xattr| drop(xattr));
        }
        for named in index.list(&node, 0).take(100).flatten() {
            let _ = index.lookup(&node, named.name);
        }
        for range in [0..u64::MAX, 5..6] {
            if let Ok(extents) = index.extents(&node, range) {
                extents.take(100).for_each(|extent| drop(extent));
            }
        }
    }
    for number in 0..index.chunks().min(4) {
        if let Ok(Some(chunk)) = index.chunk(number) {
            let length = chunk.range().end - chunk.range().start;
            let _ = chunk.open(&vec![0; length.min(1000) as usize]);
        }
    }
}
