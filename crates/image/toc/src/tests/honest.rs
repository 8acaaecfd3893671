//! Valid layers: the index returns their contents.

use std::collections::BTreeMap;

use serde_json::json;

use super::archive::content;
use super::layer::{FORMATS, Format, Layer, Writer, base64};
use crate::{Content, Index, Kind, Limits, Mtime, Node, OpenError, ROOT};

/// Returns everything below a directory, by its path.
pub(super) fn walk(index: &Index<Vec<u8>>) -> BTreeMap<String, Node> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![(String::new(), ROOT)];
    while let Some((path, number)) = waiting.pop() {
        let node = index.node(number).unwrap().unwrap();
        for (at, named) in index.list(&node, 0).enumerate() {
            let named = named.unwrap();
            assert_eq!(index.lookup(&node, named.name), Ok(Some(named.node)));
            let again = index.list(&node, at as u32).next().unwrap().unwrap();
            assert_eq!(again, named);
            let name = String::from_utf8_lossy(named.name);
            waiting.push((format!("{path}/{name}"), named.node));
        }
        assert_eq!(index.lookup(&node, b"no such name"), Ok(None));
        found.insert(path, node);
    }
    found
}

/// Reads a range of a file from the layer.
pub(super) fn read(
    index: &Index<Vec<u8>>,
    blob: &[u8],
    file: &Node,
    range: std::ops::Range<u64>,
) -> Result<Vec<u8>, OpenError> {
    let mut found = Vec::new();
    let mut reached = range.start;
    let end = range.end.min(file.size);
    for extent in index.extents(file, range.clone()).unwrap() {
        let extent = extent.unwrap();
        assert!(
            extent.range.contains(&reached),
            "{:?} {reached}",
            extent.range
        );
        let skip = (reached - extent.range.start) as usize;
        let take = (extent.range.end.min(end) - reached) as usize;
        match extent.content {
            Content::Zeros => found.resize(found.len() + take, 0),
            Content::Chunk { chunk, at } => {
                let fetched = &blob[chunk.range().start as usize..chunk.range().end as usize];
                let content = chunk.open(fetched)?;
                assert_eq!(content.len() as u64, chunk.length());
                assert_eq!(index.chunk(chunk.number()), Ok(Some(chunk.clone())));
                found.extend_from_slice(&content[at as usize + skip..][..take]);
            }
        }
        reached += take as u64;
    }
    assert_eq!(reached.max(end), reached);
    Ok(found)
}

fn whole(index: &Index<Vec<u8>>, layer: &Layer, file: &Node) -> Vec<u8> {
    read(index, &layer.blob, file, 0..u64::MAX).unwrap()
}

fn layers(fill: impl Fn(&mut Writer)) -> Vec<(Format, Layer, Index<Vec<u8>>)> {
    let make = |format| {
        let mut writer = Writer::new(format);
        fill(&mut writer);
        let layer = writer.finish();
        let index = layer.index(&Limits::default()).unwrap();
        index.check().unwrap();
        (format, layer, index)
    };
    FORMATS.into_iter().map(make).collect()
}

#[test]
fn every_kind_of_entry_comes_back_as_it_was() {
    let small = content(1, 700);
    let large = content(2, 10_000);
    let made = layers(|writer| {
        writer.plain("dir", "./", json!({"mode": 0o750, "uid": 7, "gid": 8}));
        writer.plain(
            "dir",
            "etc/",
            json!({"mode": 0o1777, "modtime": "1969-12-31T23:59:59.5Z"}),
        );
        writer.file("etc/small", &small, 4096);
        writer.file("usr/lib/large", &large, 4096);
        writer.file("etc/empty", b"", 4096);
        writer.plain("symlink", "etc/link", json!({"linkName": "../../outside"}));
        writer.plain("hardlink", "usr/hard", json!({"linkName": "/etc/small"}));
        writer.plain("char", "dev/tty", json!({"devMajor": 5, "devMinor": 1}));
        writer.plain(
            "block",
            "dev/sda",
            json!({"devMajor": 8, "devMinor": 1_048_575}),
        );
        writer.plain("fifo", "run/pipe", json!({"mode": 0o4600}));
    });
    for (format, layer, index) in made {
        let found = walk(&index);
        let names: Vec<_> = found.keys().map(String::as_str).collect();
        let expected = [
            "",
            "/dev",
            "/dev/sda",
            "/dev/tty",
            "/etc",
            "/etc/empty",
            "/etc/link",
            "/etc/small",
            "/run",
            "/run/pipe",
            "/usr",
            "/usr/hard",
            "/usr/lib",
            "/usr/lib/large",
        ];
        assert_eq!(names, expected, "{format:?}");
        let is = |name: &str| found[name];
        let root = is("");
        assert_eq!((root.permissions, root.uid, root.gid), (0o750, 7, 8));
        assert_eq!((root.number, root.parent, root.links), (ROOT, ROOT, 6));
        assert!(!root.implicit && is("/usr/lib").implicit && !is("/etc").implicit);
        assert_eq!(is("/usr/lib").parent, is("/usr").number);
        let early = Mtime {
            seconds: -1,
            nanoseconds: 500_000_000,
        };
        assert_eq!((is("/etc").permissions, is("/etc").mtime), (0o1777, early));
        assert_eq!(is("/etc/small").mtime.seconds, 1_704_164_645);
        assert_eq!(is("/usr/hard"), is("/etc/small"));
        assert_eq!((is("/usr/hard").links, is("/etc/empty").links), (2, 1));
        assert_eq!(index.target(&is("/etc/link")), Ok(&b"../../outside"[..]));
        assert_eq!(is("/etc/link").size, 13);
        assert_eq!(is("/dev/tty").device, (5, 1));
        assert_eq!(is("/dev/sda").device, (8, 1_048_575));
        assert_eq!(
            (is("/dev/sda").kind, is("/run/pipe").kind),
            (Kind::Block, Kind::Fifo)
        );
        assert_eq!(is("/run/pipe").permissions, 0o4600);
        assert!(whole(&index, &layer, &is("/etc/small")) == small);
        assert!(whole(&index, &layer, &is("/usr/lib/large")) == large);
        assert!(whole(&index, &layer, &is("/etc/empty")).is_empty());
        assert!(whole(&index, &layer, &is("/etc")).is_empty());
        // Ranges of the file must match, too.
        for range in [
            0..1,
            4095..4097,
            4096..8192,
            9_999..20_000,
            10_000..10_001,
            5..5,
        ] {
            let end = range.end.min(10_000) as usize;
            let part = read(&index, &layer.blob, &is("/usr/lib/large"), range.clone()).unwrap();
            assert!(part == large[range.start as usize..end.max(range.start as usize)]);
        }
        assert_eq!(index.blob(), layer.blob.len() as u64);
        assert_eq!(index.node(0), Ok(None));
        assert_eq!(index.node(index.nodes() + 1), Ok(None));
    }
}

#[test]
fn a_file_is_fetched_in_as_many_bytes_as_it_needs() {
    let large = content(2, 10_000);
    let made = layers(|writer| {
        writer.file("a", &content(1, 50_000), 1 << 20);
        writer.file("b", &large, 4096);
        writer.file("c", &content(3, 50_000), 1 << 20);
    });
    for (format, _, index) in made {
        let file = walk(&index)["/b"];
        let extents = index.extents(&file, 0..10_000).unwrap();
        let extents: Vec<_> = extents.map(Result::unwrap).collect();
        assert_eq!(extents.len(), 3);
        let mut reached = 0;
        for (extent, length) in extents.iter().zip([4096, 4096, 1808]) {
            let Content::Chunk { chunk, at: 0 } = &extent.content else {
                panic!("{extent:?}");
            };
            assert_eq!(extent.range, reached..reached + length);
            let range = chunk.range();
            // The last chunk includes the next header, unless the format contains its end.
            assert!(range.end - range.start < 4096, "{format:?} {range:?}");
            reached += length;
        }
    }
}

#[test]
fn files_may_share_a_member() {
    let made = layers(|writer| {
        writer.shared = true;
        writer.file("a", &content(1, 5_000), 4096);
        writer.file("b", &content(2, 3_000), 4096);
    });
    for (format, layer, index) in made {
        if format == Format::ZstdChunked {
            // In this format, frames are never shared.
            continue;
        }
        let found = walk(&index);
        assert!(whole(&index, &layer, &found["/a"]) == content(1, 5_000));
        assert!(whole(&index, &layer, &found["/b"]) == content(2, 3_000));
    }
}

#[test]
fn holes_are_not_fetched() {
    let mut writer = Writer::new(Format::ZstdChunked);
    let tail = content(1, 100);
    writer.file("sparse", &tail, 4096);
    let mut piece = writer.entries.remove(0);
    let hole = 5_u64 << 30;
    let mut first = piece.clone();
    first["size"] = (hole + 100).into();
    first["chunkType"] = "zeros".into();
    first["chunkSize"] = hole.into();
    piece["type"] = "chunk".into();
    piece["chunkOffset"] = hole.into();
    piece["chunkDigest"] = piece["digest"].take();
    piece["digest"] = "".into();
    writer.entries = vec![first, piece];
    let layer = writer.finish();
    let index = layer.index(&Limits::default()).unwrap();
    let file = walk(&index)["/sparse"];
    let extents: Vec<_> = index
        .extents(&file, 0..u64::MAX)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(extents.len(), 4);
    assert_eq!(extents.last().unwrap().range, hole..hole + 100);
    let zeros = extents
        .iter()
        .filter(|extent| extent.content == Content::Zeros);
    assert_eq!(zeros.count(), 3);
    assert_eq!(index.chunk(0), Ok(None));
    let end = read(&index, &layer.blob, &file, hole - 10..hole + 5).unwrap();
    assert!(end[..10] == [0; 10] && end[10..] == tail[..5]);
}

#[test]
fn whiteouts_are_facts_of_the_tree() {
    let made = layers(|writer| {
        writer.file("d/.wh.gone", b"", 1);
        writer.file("d/.wh..wh..opq", b"", 1);
        writer.file("e/.wh.replaced", b"", 1);
        writer.plain("dir", "e/replaced", json!({}));
        writer.file("e/.wh.rewritten", b"", 1);
        writer.file("e/rewritten", b"new", 10);
        writer.file("e/there", b"x", 10);
        writer.file("e/.wh.there", b"", 1);
        writer.file(".wh..wh.plnk/1.2", b"old", 10);
        writer.file(".wh..wh.aufs", b"", 1);
    });
    for (_, layer, index) in made {
        let found = walk(&index);
        let names: Vec<_> = found.keys().map(String::as_str).collect();
        let expected = [
            "",
            "/d",
            "/d/gone",
            "/e",
            "/e/replaced",
            "/e/rewritten",
            "/e/there",
        ];
        assert_eq!(names, expected);
        assert_eq!(found["/d/gone"].kind, Kind::Whiteout);
        assert!(found["/d"].opaque && !found["/e"].opaque);
        assert!(found["/e/replaced"].opaque);
        assert!(whole(&index, &layer, &found["/e/rewritten"]) == b"new");
        assert!(whole(&index, &layer, &found["/e/there"]) == b"x");
    }
}

#[test]
fn landmarks_say_what_is_wanted_soon_and_are_not_in_the_tree() {
    let made = layers(|writer| {
        writer.file("first", &content(1, 5_000), 4096);
        writer.file(".prefetch.landmark", &[0xf], 4096);
        writer.file("then", &content(2, 5_000), 4096);
        // Only markers in the root directory count.
        writer.file("d/.prefetch.landmark", &[0xf], 4096);
    });
    for (_, layer, index) in made {
        let found = walk(&index);
        let names: Vec<_> = found.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            ["", "/d", "/d/.prefetch.landmark", "/first", "/then"]
        );
        let end_of = |name: &str| {
            let extents = index.extents(&found[name], 0..u64::MAX).unwrap();
            match extents.last().unwrap().unwrap().content {
                Content::Chunk { chunk, .. } => chunk.range().end,
                Content::Zeros => 0,
            }
        };
        assert!(index.prioritized() >= end_of("/first"));
        assert!(index.prioritized() < end_of("/then"));
        assert!(whole(&index, &layer, &found["/then"]) == content(2, 5_000));
    }
    for (_, _, index) in layers(|writer| writer.file(".no.prefetch.landmark", &[0xf], 9)) {
        assert_eq!(index.prioritized(), 0);
        assert_eq!(index.nodes(), 1);
    }
}

#[test]
fn attributes_come_back_but_those_that_steer_the_host() {
    let made = layers(|writer| {
        let all = json!({"user.b": base64(b"\0\xff"), "user.a": base64(b""),
            "security.capability": base64(b"cap"), "trusted.overlay.opaque": base64(b"y"),
            "user.overlay.opaque": base64(b"y"), "security.selinux": base64(b"label")});
        writer.plain("fifo", "a", json!({"xattrs": all}));
        writer.plain("fifo", "b", json!({"xattrs": all}));
        writer.plain("fifo", "c", json!({"xattrs": null}));
        writer.plain("fifo", "d", json!({"xattrs": {"trusted.x": base64(b"1")}}));
    });
    for (_, _, index) in made {
        let found = walk(&index);
        let xattrs = |name: &str| {
            let all = index.xattrs(&found[name]).unwrap().map(Result::unwrap);
            let pairs = all.map(|xattr| (xattr.name.to_vec(), xattr.value.to_vec()));
            pairs.collect::<Vec<_>>()
        };
        let expected = [
            (b"security.capability".to_vec(), b"cap".to_vec()),
            (b"user.a".to_vec(), Vec::new()),
            (b"user.b".to_vec(), vec![0, 0xff]),
        ];
        assert_eq!(xattrs("/a"), expected);
        assert_eq!(xattrs("/b"), expected);
        assert!(xattrs("/c").is_empty() && xattrs("/d").is_empty());
    }
}

#[test]
fn a_later_entry_takes_the_place_of_an_earlier_one() {
    let made = layers(|writer| {
        writer.plain("dir", "d", json!({"mode": 0o700}));
        writer.file("d/f", b"old", 10);
        writer.plain("hardlink", "d/kept", json!({"linkName": "d/f"}));
        writer.file("./d//f", b"newer", 10);
        writer.plain("dir", "d/", json!({"mode": 0o711}));
    });
    for (_, layer, index) in made {
        let found = walk(&index);
        assert_eq!(found.len(), 4);
        assert_eq!(found["/d"].permissions, 0o711);
        assert!(whole(&index, &layer, &found["/d/f"]) == b"newer");
        // The result must be the same as of an unpacked layer.
        assert!(whole(&index, &layer, &found["/d/kept"]) == b"old");
        assert_eq!((found["/d/f"].links, found["/d/kept"].links), (1, 1));
    }
}

#[test]
fn hard_links_may_come_before_what_they_link_to() {
    let made = layers(|writer| {
        writer.plain("hardlink", "z/c", json!({"linkName": "z/b"}));
        writer.plain("hardlink", "z/b", json!({"linkName": "./a"}));
        writer.file("a", b"content", 10);
    });
    for (_, layer, index) in made {
        let found = walk(&index);
        assert_eq!(found["/z/c"], found["/a"]);
        assert_eq!(found["/z/b"].links, 3);
        assert!(whole(&index, &layer, &found["/z/c"]) == b"content");
    }
}

#[test]
fn what_was_fetched_is_not_served_if_it_is_not_what_was_promised() {
    let made = layers(|writer| writer.file("f", &content(1, 5_000), 4096));
    for (format, mut layer, index) in made {
        let file = walk(&index)["/f"];
        let extent = index.extents(&file, 0..1).unwrap().next().unwrap().unwrap();
        let Content::Chunk { chunk, .. } = extent.content else {
            panic!("nothing is fetched");
        };
        let range = chunk.range().start as usize..chunk.range().end as usize;
        let fetched = layer.blob[range.clone()].to_vec();
        assert!(chunk.open(&fetched).is_ok());
        for length in [0, 1, fetched.len() - 1] {
            let refused = chunk.open(&fetched[..length]);
            assert!(matches!(refused, Err(OpenError::Length { .. })));
        }
        // Other content, validly compressed.
        let other = super::layer::compress(chunk_is_zstd(format), &content(9, 5_000));
        let mut swapped = fetched.clone();
        let length = swapped.len();
        let taken = other.len().min(length);
        swapped[..taken].copy_from_slice(&other[..taken]);
        let refused = chunk.open(&swapped);
        assert!(
            matches!(
                refused,
                Err(OpenError::Mismatch { .. } | OpenError::Decompress(_))
            ),
            "{format:?}: {refused:?}"
        );
        layer.blob[range.start] ^= 1;
        let refused = read(&index, &layer.blob, &file, 0..1);
        assert!(matches!(refused, Err(OpenError::Decompress(_))));
    }
}

fn chunk_is_zstd(format: Format) -> bool {
    matches!(format, Format::ZstdChunked | Format::StargzZstd)
}
