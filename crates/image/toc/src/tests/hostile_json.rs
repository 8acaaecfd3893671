//! Malicious tables of contents of eStargz and zstd:chunked.

use serde_json::{Value, json};

use super::archive::content;
use super::honest::walk;
use super::layer::{FORMATS, Format, Layer, Writer, base64, merge};
use crate::{Digest, Error, Limits, Problem, Result};

fn layer(entries: Vec<Value>) -> Layer {
    let mut writer = Writer::new(Format::EStargz);
    writer.file("content", &content(1, 5_000), 4096);
    writer.entries = entries;
    writer.finish()
}

fn refused(entries: Vec<Value>) -> Option<Problem> {
    match layer(entries).index(&Limits::default()) {
        Err(Error::Entry { problem, .. }) => Some(problem),
        Ok(_) => None,
        Err(other) => panic!("{other}"),
    }
}

fn entry(kind: &str, name: &str, more: Value) -> Value {
    let mut entry = json!({"name": name, "type": kind});
    merge(&mut entry, more);
    entry
}

fn limited(entries: Vec<Value>, limits: Limits) -> Result<()> {
    layer(entries).index(&limits).map(drop)
}

#[test]
fn names_that_lead_out_of_the_layer_are_refused() {
    for (name, problem) in [
        ("../x", Problem::Upwards),
        ("a/../../x", Problem::Upwards),
        ("a\0", Problem::Nul),
        (&"x".repeat(256), Problem::NameTooLong),
        (&"x/".repeat(300), Problem::TooDeep),
        ("d/.wh...", Problem::Whiteout),
    ] {
        for kind in ["fifo", "dir", "reg", "symlink", "hardlink", "char"] {
            let more = json!({"linkName": "x"});
            assert_eq!(
                refused(vec![entry(kind, name, more)]),
                Some(problem),
                "{name} {kind}"
            );
        }
    }
    // Link targets are not restricted: the consumer must resolve them within a root.
    assert_eq!(
        refused(vec![entry(
            "symlink",
            "l",
            json!({"linkName": "/../../etc"})
        )]),
        None
    );
    for (target, problem) in [("../x", Problem::Upwards), ("a\0", Problem::Nul)] {
        let link = entry("hardlink", "l", json!({"linkName": target}));
        assert_eq!(refused(vec![link]), Some(problem));
    }
}

#[test]
fn targets_that_are_no_paths_are_refused() {
    for target in ["", "a\0b", &"x".repeat(4096)] {
        let link = entry("symlink", "l", json!({"linkName": target}));
        assert_eq!(refused(vec![link]), Some(Problem::Target));
    }
}

#[test]
fn hard_links_to_nothing_to_themselves_or_to_directories_are_refused() {
    let link = |name: &str, target: &str| entry("hardlink", name, json!({"linkName": target}));
    assert_eq!(refused(vec![link("a", "b")]), Some(Problem::LinkToNothing));
    assert_eq!(refused(vec![link("a", "a")]), Some(Problem::LinkLoop));
    let circle = vec![link("a", "b"), link("b", "c"), link("c", "./a")];
    assert_eq!(refused(circle), Some(Problem::LinkLoop));
    let directory = entry("dir", "d", json!({}));
    let to_directory = vec![directory.clone(), link("a", "d")];
    assert_eq!(refused(to_directory), Some(Problem::LinkToDirectory));
    let to_later = vec![link("a", "d"), directory];
    assert_eq!(refused(to_later), Some(Problem::LinkToDirectory));
    assert_eq!(
        refused(vec![link("a", "/")]),
        Some(Problem::LinkToDirectory)
    );
    let whiteout = vec![entry("reg", ".wh.w", json!({})), link("a", "w")];
    assert_eq!(refused(whiteout), Some(Problem::LinkToNothing));
    let root = vec![entry("fifo", "f", json!({})), link("/", "f")];
    assert_eq!(refused(root), Some(Problem::Conflict));
    let onto = vec![
        link("d", "f"),
        entry("dir", "d", json!({})),
        entry("fifo", "f", json!({})),
    ];
    assert_eq!(refused(onto), Some(Problem::Conflict));
}

#[test]
fn a_long_way_of_hard_links_takes_no_long_time() {
    let link = |at: usize| {
        let target = format!("{}", at + 1);
        entry("hardlink", &at.to_string(), json!({"linkName": target}))
    };
    let mut entries: Vec<_> = (0..20_000).map(link).collect();
    entries.push(entry("fifo", "20000", json!({})));
    let begun = std::time::Instant::now();
    let index = layer(entries).index(&Limits::default()).unwrap();
    assert_eq!(index.nodes(), 2);
    assert_eq!(index.node(2).unwrap().unwrap().links, 20_001);
    assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
}

#[test]
fn what_is_a_directory_to_one_entry_is_one_to_all() {
    let d = || entry("dir", "d", json!({}));
    let f = || entry("fifo", "d", json!({}));
    let below = || entry("fifo", "d/x", json!({}));
    for entries in [
        vec![d(), f()],
        vec![f(), d()],
        vec![f(), below()],
        vec![below(), f()],
    ] {
        assert_eq!(refused(entries), Some(Problem::Conflict));
    }
    for kind in ["fifo", "reg", "symlink"] {
        let root = entry(kind, "./", json!({"linkName": "x"}));
        assert_eq!(refused(vec![root]), Some(Problem::Conflict));
    }
}

#[test]
fn numbers_out_of_range_are_refused() {
    for (kind, more, problem) in [
        ("reg", json!({"size": -1}), Problem::Size),
        ("fifo", json!({"uid": -1}), Problem::Owner),
        ("fifo", json!({"gid": 4_294_967_295_u32}), Problem::Owner),
        ("char", json!({"devMajor": 4096}), Problem::Device),
        ("block", json!({"devMinor": -1}), Problem::Device),
        ("socket", json!({}), Problem::Kind),
        ("fifo", json!({"xattrs": {"user.x": "?"}}), Problem::Xattrs),
    ] {
        assert_eq!(refused(vec![entry(kind, "x", more)]), Some(problem));
    }
}

/// Returns a file of the 5,000 bytes in the layer, with changed fields.
fn file(more: Value) -> Value {
    let digest = Digest::of(&content(1, 5_000)).to_string();
    let mut file = json!({"name": "f", "type": "reg", "size": 5_000, "offset": 100,
        "chunkDigest": digest});
    merge(&mut file, more);
    file
}

fn chunk(more: Value) -> Value {
    let digest = Digest::of(b"x").to_string();
    let mut chunk = json!({"name": "f", "type": "chunk", "offset": 150, "chunkDigest": digest});
    merge(&mut chunk, more);
    chunk
}

#[test]
fn chunks_that_do_not_make_up_the_file_are_refused() {
    let (gap, cover) = (Some(Problem::Gap), Some(Problem::Cover));
    let first = || file(json!({"chunkSize": 4096}));
    let at = |offset: i64, size: i64| chunk(json!({"chunkOffset": offset, "chunkSize": size}));
    assert_eq!(refused(vec![first(), at(4096, 0)]), None);
    assert_eq!(refused(vec![first(), at(4096, 904)]), None);
    assert_eq!(refused(vec![first()]), cover);
    assert_eq!(refused(vec![first(), entry("fifo", "x", json!({}))]), cover);
    assert_eq!(refused(vec![first(), at(4096, 903)]), cover);
    assert_eq!(refused(vec![first(), at(4096, 905)]), cover);
    assert_eq!(refused(vec![first(), at(4096, i64::MAX)]), cover);
    assert_eq!(refused(vec![first(), at(4095, 905)]), gap);
    assert_eq!(refused(vec![first(), at(4097, 903)]), gap);
    assert_eq!(refused(vec![first(), at(4096, 0), at(5000, 0)]), cover);
    assert_eq!(refused(vec![first(), at(4096, 0), at(4096, 904)]), gap);
    assert_eq!(refused(vec![file(json!({"chunkOffset": 1}))]), gap);
    assert_eq!(refused(vec![file(json!({"chunkSize": 5_001}))]), cover);
    let of_nothing = Some(Problem::ChunkOfNothing);
    assert_eq!(refused(vec![at(0, 1)]), of_nothing);
    assert_eq!(
        refused(vec![entry("dir", "d", json!({})), at(0, 1)]),
        of_nothing
    );
    let empty = || entry("reg", "f", json!({}));
    assert_eq!(refused(vec![empty(), at(0, 0)]), cover);
    assert_eq!(refused(vec![empty(), at(1, 0)]), gap);
}

#[test]
fn content_that_is_not_in_the_layer_is_refused() {
    let outside = Some(Problem::Outside);
    let size = layer(Vec::new()).blob.len() as i64;
    for more in [
        json!({"offset": -1}),
        json!({"innerOffset": -1}),
        json!({"chunkOffset": -1}),
        json!({"endOffset": -1}),
        json!({"offset": size}),
        json!({"offset": i64::MAX}),
        // This is the position of the table of contents.
        json!({"offset": size - 60}),
    ] {
        assert_eq!(refused(vec![file(more.clone())]), outside, "{more}");
    }
}

#[test]
fn content_that_cannot_be_verified_is_refused() {
    for digest in ["", "sha256:", "sha512:00", "md5:00"] {
        let file = file(json!({"chunkDigest": digest}));
        assert_eq!(refused(vec![file]), Some(Problem::Unverifiable));
    }
    // The digest of a whole file does not apply to a part of it.
    let whole = Digest::of(b"x").to_string();
    let part = file(json!({"chunkDigest": "", "digest": whole, "chunkSize": 4096}));
    assert_eq!(refused(vec![part]), Some(Problem::Unverifiable));
    let other = file(json!({"chunkType": "other"}));
    assert_eq!(refused(vec![other]), Some(Problem::Kind));
}

#[test]
fn chunks_larger_than_allowed_are_refused() {
    let large = Some(Problem::ChunkTooLarge);
    let most = i64::from(Limits::default().chunk);
    assert_eq!(refused(vec![file(json!({"size": most + 1}))]), large);
    assert_eq!(refused(vec![file(json!({"size": i64::MAX}))]), large);
    assert_eq!(refused(vec![file(json!({"innerOffset": most}))]), large);
    assert_eq!(refused(vec![file(json!({"innerOffset": i64::MAX}))]), large);
    assert_eq!(
        refused(vec![file(json!({"innerOffset": most - 5_000}))]),
        None
    );
    // A small file cannot make a node fetch much, either.
    let mut writer = Writer::new(Format::EStargz);
    writer.blob = vec![0; 2_000_000];
    writer.entries = vec![file(json!({"offset": 0}))];
    let index = writer.finish().index(&Limits::default()).unwrap();
    let fetched = index.chunk(0).unwrap().unwrap().range();
    assert!(fetched.end < 100_000, "{fetched:?}");
}

#[test]
fn a_hole_is_no_way_to_more_chunks_than_allowed() {
    let limits = Limits {
        chunks: 4,
        ..Limits::default()
    };
    let hole = |size: i64| vec![file(json!({"size": size, "chunkType": "zeros"}))];
    assert!(limited(hole(4 << 31), limits).is_ok());
    for size in [(4 << 31) + 1, i64::MAX] {
        let refused = limited(hole(size), limits);
        assert!(matches!(
            refused,
            Err(Error::TooMuch { what: "chunks", .. })
        ));
    }
}

#[test]
fn more_of_anything_than_allowed_is_refused() {
    let many = |count: usize| (0..count).map(|at| entry("fifo", &at.to_string(), json!({})));
    let base = Limits::default();
    let too_much = |entries: Vec<Value>, limits: Limits, what: &str| {
        let refused = limited(entries, limits);
        let Err(Error::TooMuch { what: found, .. }) = refused else {
            panic!("{what}: {refused:?}");
        };
        assert_eq!(found, what);
    };
    let entries = Limits {
        entries: 10,
        ..base
    };
    assert!(limited(many(9).collect(), entries).is_ok());
    too_much(many(11).collect(), entries, "entries");
    // Entries with the same name count, too, and so do directories without an entry.
    too_much(vec![entry("fifo", "x", json!({})); 11], entries, "entries");
    too_much(
        vec![entry("fifo", "a/b/c/d/e/f/g/h/i/j/k", json!({}))],
        entries,
        "entries",
    );
    let chunks = Limits { chunks: 1, ..base };
    too_much(
        vec![file(json!({})), file(json!({"name": "g"}))],
        chunks,
        "chunks",
    );
    let texts = Limits {
        texts: 1000,
        ..base
    };
    too_much(many(1000).collect(), texts, "bytes of names and texts");
    let long = entry("symlink", "l", json!({"linkName": "x".repeat(1000)}));
    too_much(vec![long], texts, "bytes of names and texts");
    let links = |at: usize| entry("hardlink", &at.to_string(), json!({"linkName": "x"}));
    too_much(
        (0..500).map(links).collect(),
        texts,
        "bytes of names and texts",
    );
    let xattr = entry(
        "fifo",
        "f",
        json!({"xattrs": {"user.x": base64(&[7; 2000])}}),
    );
    too_much(vec![xattr.clone()], texts, "bytes of names and texts");
    let xattrs = Limits {
        xattrs: 1000,
        ..base
    };
    assert!(matches!(
        limited(vec![xattr], xattrs),
        Err(Error::Entry {
            problem: Problem::Xattrs,
            ..
        })
    ));
    let depth = Limits { depth: 2, ..base };
    assert!(limited(vec![entry("fifo", "a/b/f", json!({}))], depth).is_ok());
    assert!(limited(vec![entry("fifo", "a/b/c/f", json!({}))], depth).is_err());
}

fn of_text(format: Format, text: &[u8], limits: &Limits) -> Result<()> {
    let layer = Writer::new(format).finish_with(text);
    layer.index(limits).map(drop)
}

#[test]
fn what_is_no_table_of_contents_is_refused() {
    let good = json!({"version": 1, "entries": []}).to_string();
    let deep = format!("{{\"version\":1,\"x\":{}", "[".repeat(1_000_000));
    let deep_entry = format!(
        "{{\"version\":1,\"entries\":[{}",
        "{\"name\":".repeat(1_000_000)
    );
    for format in FORMATS {
        let limits = Limits::default();
        of_text(format, good.as_bytes(), &limits).unwrap();
        for text in [
            "",
            "{",
            "[]",
            "null",
            "7",
            "{}",
            r#"{"version":1}"#,
            r#"{"entries":[]}"#,
            r#"{"version":2,"entries":[]}"#,
            r#"{"version":1,"entries":{}}"#,
            r#"{"version":1,"version":1,"entries":[]}"#,
            r#"{"version":1,"entries":[],"entries":[]}"#,
            r#"{"version":1,"entries":[]}x"#,
            r#"{"version":1,"entries":[7]}"#,
            r#"{"version":1,"entries":[{"name":"a","type":"fifo","mode":1.5}]}"#,
            r#"{"version":1,"entries":[{"name":"a","type":"fifo","uid":18446744073709551616}]}"#,
            r#"{"version":1,"entries":[{"name":"a","name":"b","type":"fifo"}]}"#,
            "{\"version\":1,\"entries\":[{\"name\":\"\u{7}\"}]}",
            &deep,
            &deep_entry,
        ] {
            let refused = of_text(format, text.as_bytes(), &limits);
            let shown = &text[..text.len().min(60)];
            assert!(
                matches!(refused, Err(Error::Json(_))),
                "{shown}: {refused:?}"
            );
        }
    }
}

#[test]
fn an_entry_of_endless_text_is_not_read_to_its_end() {
    for begin in ["\"name\":\"", "\"xattrs\":{\"user.x\":\"", "\"other\":\""] {
        let text = format!(
            "{{\"version\":1,\"entries\":[{{{begin}{}",
            "x".repeat(2 << 20)
        );
        let refused = of_text(Format::ZstdChunked, text.as_bytes(), &Limits::default());
        let Err(Error::Json(error)) = refused else {
            panic!("{refused:?}");
        };
        assert!(error.to_string().contains("larger than allowed"), "{error}");
    }
    // Many smaller entries are accepted.
    let one = json!({"name": "f", "type": "fifo", "other": "x".repeat(1 << 19)});
    let text = json!({"version": 1, "entries": vec![one; 5]}).to_string();
    of_text(Format::ZstdChunked, text.as_bytes(), &Limits::default()).unwrap();
}

#[test]
fn a_table_that_is_larger_than_allowed_is_not_decompressed() {
    let text = json!({"version": 1, "entries": [], "x": "x".repeat(100_000)}).to_string();
    for format in FORMATS {
        let least = Limits {
            table: text.len() as u64,
            ..Limits::default()
        };
        of_text(format, text.as_bytes(), &least).unwrap();
        let less = Limits {
            table: least.table - 1,
            ..least
        };
        let refused = of_text(format, text.as_bytes(), &less);
        assert!(
            matches!(refused, Err(Error::TooMuch { .. })),
            "{format:?} {refused:?}"
        );
        let fetched = Limits {
            fetched: 50,
            ..least
        };
        let refused = of_text(format, text.as_bytes(), &fetched);
        assert!(
            matches!(refused, Err(Error::TooMuch { .. })),
            "{format:?} {refused:?}"
        );
    }
}

#[test]
fn a_table_of_another_digest_is_refused() {
    for format in FORMATS {
        let mut layer = Writer::new(format).finish();
        let other = Digest::of(b"other").to_string();
        for (name, value) in &mut layer.annotations {
            if name.ends_with("digest") || name.ends_with("checksum") {
                value.clone_from(&other);
            }
        }
        let refused = layer.index(&Limits::default());
        assert!(matches!(refused, Err(Error::Mismatch { .. })), "{format:?}");
    }
    // Both digests are verified.
    let mut layer = Writer::new(Format::ZstdChunked).finish();
    let plain = Digest::of(br#"{"entries":[],"version":1}"#).to_string();
    let name = "containerd.io/snapshot/stargz/toc.digest".to_owned();
    layer.annotations.push((name, plain));
    layer.index(&Limits::default()).unwrap();
    layer.annotations[2].1 = Digest::of(b"other").to_string();
    let refused = layer.index(&Limits::default());
    assert!(matches!(refused, Err(Error::Mismatch { .. })));
}

#[test]
fn duplicates_are_one_entry() {
    let entries = vec![
        file(json!({})),
        file(json!({"mode": 0o600})),
        file(json!({"name": "./f"})),
    ];
    let index = layer(entries).index(&Limits::default()).unwrap();
    assert_eq!(walk(&index).len(), 2);
    assert_eq!((index.nodes(), index.chunks()), (2, 1));
}
