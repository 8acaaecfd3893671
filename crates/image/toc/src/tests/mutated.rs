//! Mutated layers: no mutation causes a panic or exceeds the limits.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::archive::content;
use super::hostile_index::ask;
use super::layer::{FORMATS, Format, Writer, base64, compress};
use super::ztoc::{self, index};
use crate::{Index, Limits, Result};

fn limits() -> Limits {
    Limits {
        fetched: 1 << 20,
        table: 1 << 20,
        entries: 50,
        chunks: 50,
        chunk: 1 << 20,
        depth: 10,
        xattrs: 1000,
        texts: 10_000,
    }
}

/// Checks that an index is bounded, and that all its methods return.
fn bounded(made: Result<Index<Vec<u8>>>, windows: usize) {
    let Ok(index) = made else {
        return;
    };
    let limits = limits();
    index.check().unwrap();
    assert!(index.nodes() <= limits.entries + 1);
    assert!(index.chunks() <= limits.chunks);
    let each = 20 + 8 + 32 + 60 + 56;
    let most = 1000 + each * 60 + limits.texts as usize * 2 + windows;
    assert!(index.bytes().len() <= most, "{}", index.bytes().len());
    ask(&index).unwrap();
    for number in 0..index.chunks() {
        if let Some(chunk) = index.chunk(number).unwrap() {
            assert!(chunk.length() <= u64::from(limits.chunk));
            assert!(chunk.range().end <= index.blob());
        }
    }
}

fn honest(format: Format) -> Writer {
    let mut writer = Writer::new(format);
    writer.plain("dir", "d", json!({}));
    writer.file("d/f", &content(1, 9_000), 4096);
    writer.plain("hardlink", "h", json!({"linkName": "d/f"}));
    writer.plain("symlink", "l", json!({"linkName": "x"}));
    writer.plain("fifo", "p", json!({"xattrs": {"user.x": base64(b"y")}}));
    writer.file(".prefetch.landmark", &[0xf], 10);
    writer.file("d/.wh.gone", b"", 10);
    writer
}

/// Generates replacement values.
fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::from),
        (-3_i64..20_000).prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        prop::sample::select(vec![
            "reg", "dir", "chunk", "hardlink", "symlink", "char", "", "zeros"
        ])
        .prop_map(Value::from),
        prop::sample::select(vec![
            "d",
            "d/f",
            "h",
            "l",
            ".wh.d",
            "d/.wh..wh..opq",
            "..",
            "/"
        ])
        .prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        Just(Value::Null),
        Just(json!({"user.x": "eA=="})),
        Just(json!([[[]]])),
    ]
}

const FIELDS: [&str; 17] = [
    "name",
    "type",
    "size",
    "modtime",
    "linkName",
    "mode",
    "uid",
    "devMajor",
    "xattrs",
    "digest",
    "offset",
    "endOffset",
    "innerOffset",
    "chunkOffset",
    "chunkSize",
    "chunkDigest",
    "chunkType",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn entries_with_other_fields(
        format in prop::sample::select(&FORMATS[..]),
        changes in prop::collection::vec((any::<usize>(), 0..FIELDS.len(), value()), 1..4),
        moved in any::<(usize, usize)>(),
    ) {
        let mut writer = honest(format);
        let count = writer.entries.len();
        writer.entries.swap(moved.0 % count, moved.1 % count);
        for (at, field, value) in changes {
            writer.entries[at % count][FIELDS[field]] = value;
        }
        bounded(writer.finish().index(&limits()), 0);
    }

    #[test]
    fn tables_with_other_bytes(
        format in prop::sample::select(&FORMATS[..]),
        changes in prop::collection::vec(any::<(usize, u8)>(), 1..6),
        cut in any::<usize>(),
    ) {
        let writer = honest(format);
        let mut text = json!({"version": 1, "entries": writer.entries}).to_string().into_bytes();
        for (at, byte) in changes {
            let at = at % text.len();
            text[at] = byte;
        }
        if cut % 4 == 0 {
            text.truncate(cut / 4 % text.len());
        }
        bounded(writer.finish_with(&text).index(&limits()), 0);
    }

    #[test]
    fn layers_with_other_bytes(
        format in prop::sample::select(&FORMATS[..]),
        changes in prop::collection::vec(any::<(usize, u8)>(), 1..6),
    ) {
        let mut layer = honest(format).finish();
        let length = layer.blob.len();
        for (at, byte) in changes {
            // Most mutations hit the table of contents and the footer.
            let at = if at % 4 == 0 { at % length } else { length - 1 - at % 900.min(length) };
            layer.blob[at] = byte;
        }
        bounded(layer.index(&limits()), 0);
    }

    #[test]
    fn ztocs_with_other_bytes(
        changes in prop::collection::vec(any::<(usize, u8)>(), 1..6),
        cut in any::<usize>(),
    ) {
        let (mut bytes, layer) = HONEST.clone();
        // Excludes the windows, whose bytes are not interpreted.
        let telling = 3000;
        for (at, byte) in changes {
            let at = if at % 8 == 0 { at % bytes.len() } else { at % telling };
            bytes[at] = byte;
        }
        if cut % 8 == 0 {
            bytes.truncate(cut / 8 % bytes.len());
        }
        bounded(index(&bytes, layer, &limits()), bytes.len());
    }

    #[test]
    fn chunks_with_other_bytes(
        format in prop::sample::select(&FORMATS[..]),
        changes in prop::collection::vec(any::<(usize, u8)>(), 1..4),
    ) {
        let layer = honest(format).finish();
        let index = layer.index(&limits()).unwrap();
        for number in 0..index.chunks() {
            let chunk = index.chunk(number).unwrap().unwrap();
            let good = layer.fetch(chunk.range()).to_vec();
            let mut bad = good.clone();
            for (at, byte) in &changes {
                let at = at % bad.len();
                bad[at] = *byte;
            }
            // A chunk never returns bytes with another digest.
            if let Ok(found) = chunk.open(&bad) {
                assert!(found == chunk.open(&good).unwrap());
            }
        }
    }
}

static HONEST: std::sync::LazyLock<(Vec<u8>, u64)> = std::sync::LazyLock::new(|| {
    let archive = ztoc::archive();
    let layer = compress(false, &archive.tar);
    let ztoc = archive.parts(&layer, 200_000).build();
    (ztoc, layer.len() as u64)
});
