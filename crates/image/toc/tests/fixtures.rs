//! Layers that the test kit packs: what their tables of contents say is what is in their archives.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "tests fail by panicking, and read what they wrote themselves"
)]

use std::collections::BTreeMap;
use std::io::Read as _;
use std::ops::Range;

use orlop_testkit::image::{Blob, BuiltImage, ChunkedLayer, EntryType};
use orlop_testkit::{Chunked, Compression, Cut, ImageBuilder, Layer};
use orlop_toc::{
    Claim, Compression as Packed, Content, Digest, Index, Kind, Limits, Node, ROOT, Step, Toc, soci,
};

/// All kinds of entries, named in all ways.
fn everything() -> Layer {
    let long = format!("usr/{}/{}", "d".repeat(90), "f".repeat(90));
    let mut zeros = vec![7; 8192];
    zeros.extend(vec![0; 40_000]);
    zeros.push(1);
    // Packed to less, but in many blocks.
    let words = (0..400_000_u32).map(|n| b'a' + ((n.wrapping_mul(n) >> 11) & 15) as u8);
    let words: Vec<_> = words.collect();
    Layer::new()
        .dir("./", 0o755)
        .dir("etc/", 0o1777)
        .file("etc/small", "ahoy\n", 0o600)
        .owner(1000, 3_000_000_000)
        .file("etc/empty", "", 0o4755)
        .noise("large", 100_000)
        .noise("exact", 8192)
        .file("words", words, 0o644)
        .owner(0, 0)
        .file("zeros", zeros, 0o644)
        .file("nothing", vec![0; 20_000], 0o644)
        .file(&long, "long", 0o644)
        .xattr("user.x", b"\xff\0=")
        .file("capable", "yes", 0o755)
        .symlink("etc/soft", "../large")
        .symlink("far", &"t/".repeat(100))
        .hardlink("etc/hard", "large", 0o644)
        .hardlink("etc/long", &long, 0o644)
        .device("tty", 5, 1, 0o620)
        .raw(EntryType::Block, b"disk", b"", b"")
        .fifo("pipe", 0o640)
        .whiteout("etc/gone")
        .xattr("user.empty", b"")
        .dir("fresh", 0o755)
        .opaque("fresh")
}

/// What an entry of an archive is, or a node of an index.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    kind: &'static str,
    permissions: u32,
    owner: (u64, u64),
    seconds: i64,
    device: (u32, u32),
    target: Vec<u8>,
    xattrs: BTreeMap<String, Vec<u8>>,
    content: Vec<u8>,
}

type Tree = BTreeMap<String, Found>;

fn path(bytes: &[u8]) -> String {
    let name = String::from_utf8(bytes.to_vec()).unwrap();
    let name = name.trim_start_matches("./").trim_end_matches('/');
    name.to_owned()
}

/// What an archive holds, as its own reader has it. Names that only say something of others are left out.
fn of_archive(archive: &[u8]) -> Tree {
    let mut tree = Tree::new();
    let mut reader = tar::Archive::new(archive);
    let mut links = Vec::new();
    for entry in reader.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = path(&entry.path_bytes());
        let base = name.rsplit('/').next().unwrap();
        if base.starts_with(".wh.") || base.ends_with(".landmark") || base == "stargz.index.json" {
            continue;
        }
        let target = entry.link_name_bytes().unwrap_or_default().into_owned();
        let kind = match entry.header().entry_type() {
            EntryType::Regular => "file",
            EntryType::Directory => "directory",
            EntryType::Symlink => "symlink",
            EntryType::Char => "character",
            EntryType::Block => "block",
            EntryType::Fifo => "fifo",
            EntryType::Link => {
                links.push((name, path(&target)));
                continue;
            }
            other => panic!("{other:?}"),
        };
        let mut xattrs = BTreeMap::new();
        for record in entry.pax_extensions().unwrap().into_iter().flatten() {
            let record = record.unwrap();
            let name = record.key().unwrap().strip_prefix("SCHILY.xattr.");
            xattrs.extend(name.map(|name| (name.to_owned(), record.value_bytes().to_vec())));
        }
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        let header = entry.header();
        let is_device = matches!(kind, "character" | "block");
        let device = |number: std::io::Result<Option<u32>>| {
            let number = number.ok().flatten().filter(|_| is_device);
            number.unwrap_or_default()
        };
        let found = Found {
            kind,
            permissions: header.mode().unwrap(),
            owner: (header.uid().unwrap(), header.gid().unwrap()),
            seconds: header.mtime().unwrap() as i64,
            device: (device(header.device_major()), device(header.device_minor())),
            target,
            xattrs,
            content,
        };
        tree.insert(name, found);
    }
    for (name, target) in links {
        let found = Found {
            target: Vec::new(),
            content: tree[&target].content.clone(),
            xattrs: BTreeMap::new(),
            ..tree[&target]
        };
        tree.insert(name, found);
    }
    tree
}

/// What an index holds. Every byte of it comes out of the layer.
fn of_index(index: &Index<Vec<u8>>, layer: &[u8]) -> (Tree, Vec<String>, Vec<String>) {
    index.check().unwrap();
    for number in 0..index.chunks() {
        if let Some(chunk) = index.chunk(number).unwrap() {
            let content = chunk.open(part(layer, chunk.range())).unwrap();
            assert_eq!(content.len() as u64, chunk.length());
        }
    }
    let (mut tree, mut gone, mut opaque) = (Tree::new(), Vec::new(), Vec::new());
    let mut waiting = vec![(String::new(), ROOT)];
    while let Some((name, number)) = waiting.pop() {
        let node = index.node(number).unwrap().unwrap();
        for named in index.list(&node, 0).map(Result::unwrap) {
            let base = String::from_utf8(named.name.to_vec()).unwrap();
            let slash = if name.is_empty() { "" } else { "/" };
            waiting.push((format!("{name}{slash}{base}"), named.node));
        }
        if node.opaque {
            opaque.push(name.clone());
        }
        if node.kind == Kind::Whiteout {
            gone.push(name);
        } else if !node.implicit {
            tree.insert(name, found(index, layer, &node));
        }
    }
    (tree, gone, opaque)
}

fn found(index: &Index<Vec<u8>>, layer: &[u8], node: &Node) -> Found {
    let xattrs = index.xattrs(node).unwrap().map(Result::unwrap);
    let text = |name: &[u8]| String::from_utf8(name.to_vec()).unwrap();
    Found {
        kind: match node.kind {
            Kind::File => "file",
            Kind::Directory => "directory",
            Kind::Symlink => "symlink",
            Kind::Character => "character",
            Kind::Block => "block",
            Kind::Fifo => "fifo",
            Kind::Whiteout => "whiteout",
        },
        permissions: node.permissions.into(),
        owner: (node.uid.into(), node.gid.into()),
        seconds: node.mtime.seconds,
        device: node.device,
        target: match node.kind {
            Kind::Symlink => index.target(node).unwrap().to_vec(),
            _ => Vec::new(),
        },
        xattrs: xattrs.map(|x| (text(x.name), x.value.to_vec())).collect(),
        content: content(index, layer, node),
    }
}

fn content(index: &Index<Vec<u8>>, layer: &[u8], node: &Node) -> Vec<u8> {
    let mut content = Vec::new();
    for extent in index.extents(node, 0..node.size).unwrap() {
        let extent = extent.unwrap();
        let length = (extent.range.end - extent.range.start) as usize;
        assert_eq!(extent.range.start, content.len() as u64);
        match extent.content {
            Content::Zeros => content.resize(content.len() + length, 0),
            Content::Chunk { chunk, at } => {
                let opened = chunk.open(part(layer, chunk.range())).unwrap();
                content.extend(&opened[at as usize..][..length]);
            }
        }
    }
    content
}

fn part(layer: &[u8], range: Range<u64>) -> &[u8] {
    &layer[range.start as usize..range.end as usize]
}

/// The index of a layer by what its descriptor says, as a node gets it.
fn indexed(blob: &Blob) -> Index<Vec<u8>> {
    let packed = if blob.media_type.ends_with("zstd") {
        Packed::Zstd
    } else {
        Packed::Gzip
    };
    let claim = Claim::of(packed, |name| blob.annotations.get(name)?.as_str());
    let claim = claim.unwrap().expect("nothing is promised");
    let (length, limits) = (blob.bytes.len() as u64, Limits::default());
    let toc = match claim.begin(length, &limits).unwrap() {
        Step::Table(toc) => toc,
        Step::Footer(range) => {
            let tail = part(&blob.bytes, range);
            claim.locate(tail, length, &limits).unwrap()
        }
    };
    let archive = blob.bytes.len() as u64;
    assert!(claim.uncompressed().is_none_or(|bytes| bytes > archive / 2));
    toc.parse(part(&blob.bytes, toc.range()), &limits).unwrap()
}

fn only_layer(layer: ChunkedLayer) -> Blob {
    let image = ImageBuilder::new().cut(layer).build();
    image.layers.into_iter().next().unwrap()
}

fn cuts(form: Chunked) -> Vec<Cut> {
    let small = Cut::new().chunk(4096);
    match form {
        Chunked::ZstdChunked => vec![Cut::new(), small],
        _ => vec![
            Cut::new(),
            small.clone().without_landmark(),
            small.clone().first(&["etc/hard", "./zeros"]),
            small.member(30_000),
        ],
    }
}

#[test]
fn a_table_of_contents_says_what_is_in_the_archive() {
    let archive = everything().tar();
    let expected = of_archive(&archive);
    assert_eq!(expected.len(), 19);
    for form in Chunked::ALL {
        for cut in cuts(form) {
            let layer = ChunkedLayer::of(&archive, form, &cut);
            let blob = only_layer(layer);
            let index = indexed(&blob);
            let (found, gone, opaque) = of_index(&index, &blob.bytes);
            let names: Vec<_> = found.keys().collect();
            assert_eq!(names, expected.keys().collect::<Vec<_>>(), "{form:?}");
            for (name, expected) in &expected {
                let found = &found[name];
                assert!(found == expected, "{form:?} {cut:?}: {name}");
            }
            assert_eq!(
                (gone, opaque),
                (vec!["etc/gone".into()], vec!["fresh".into()])
            );
        }
    }
}

#[test]
fn a_layer_that_is_unpacked_whole_has_the_same_entries() {
    let archive = everything().tar();
    let expected = of_archive(&archive);
    for form in Chunked::ALL {
        for cut in cuts(form) {
            let layer = ChunkedLayer::of(&archive, form, &cut);
            let whole = layer.archive();
            assert_eq!(layer.diff_id, Digest::of(&whole).to_string());
            assert_eq!(layer.uncompressed, whole.len() as u64);
            assert!(of_archive(&whole) == expected, "{form:?} {cut:?}");
        }
    }
}

#[test]
fn what_is_wanted_soon_comes_first() {
    let archive = everything().tar();
    let cut = Cut::new().first(&["etc/hard", "capable"]);
    for form in [Chunked::EStargz, Chunked::OldStargz, Chunked::StargzZstd] {
        let blob = only_layer(ChunkedLayer::of(&archive, form, &cut));
        let index = indexed(&blob);
        let soon = index.prioritized();
        assert!(soon > 100_000 && soon < blob.bytes.len() as u64 - 8192);
        let root = index.node(ROOT).unwrap().unwrap();
        for (name, first) in [("large", true), ("capable", true), ("exact", false)] {
            let node = index.lookup(&root, name.as_bytes()).unwrap().unwrap();
            let node = index.node(node).unwrap().unwrap();
            let extent = index.extents(&node, 0..1).unwrap().next().unwrap().unwrap();
            let Content::Chunk { chunk, .. } = extent.content else {
                panic!("{name} is not in the layer");
            };
            assert_eq!(chunk.range().end <= soon, first, "{form:?} {name}");
        }
        let none = only_layer(ChunkedLayer::of(&archive, form, &Cut::new()));
        assert_eq!(indexed(&none).prioritized(), 0);
    }
}

#[test]
fn zeros_are_told_where_the_format_can_tell_them() {
    let zstd = everything().chunked(Chunked::ZstdChunked, &Cut::new().chunk(4096));
    let index = indexed(&only_layer(zstd));
    let chunks = 0..index.chunks();
    let zeros = chunks.filter(|at| index.chunk(*at).unwrap().is_none());
    // Of 8,192 bytes, 40,000 zeros and a byte nine chunks are zeros, and five of 20,000 zeros.
    assert_eq!(zeros.count(), 9 + 5);
}

/// The manifest of the SOCI index that an image names.
fn soci_of(image: &BuiltImage) -> (soci::Manifest, &BuiltImage) {
    let top = String::from_utf8(image.top.bytes.clone()).unwrap();
    let artifact = &image.beside[0];
    let named = format!("\"{}\":\"{}\"", soci::INDEX_DIGEST, artifact.digest());
    assert!(top.contains(&named), "{top}");
    let digest = Digest::parse(artifact.digest()).unwrap();
    let manifest = soci::Manifest::parse(&artifact.top.bytes, digest).unwrap();
    assert_eq!(manifest.version(), soci::Version::V2);
    (manifest, artifact)
}

fn ztoc_of(image: &BuiltImage, layer: &Blob) -> Option<(Toc, Vec<u8>)> {
    let (manifest, artifact) = soci_of(image);
    let digest = Digest::parse(&layer.digest).unwrap();
    let bytes = layer.bytes.len() as u64;
    let (named, toc) = manifest.toc(digest, bytes, &Limits::default()).unwrap()?;
    let named = named.to_string();
    let ztoc = artifact.layers.iter().find(|blob| blob.digest == named);
    Some((toc, ztoc.unwrap().bytes.clone()))
}

#[test]
fn a_plain_gzip_layer_has_a_ztoc_beside_it() {
    let archive = everything().tar();
    let expected = of_archive(&archive);
    let image = ImageBuilder::new()
        .archive(archive.clone(), Compression::Gzip)
        .packed(Layer::new().file("zstd", "x", 0o644), Compression::Zstd)
        .chunked(Layer::new().file("lazy", "x", 0o644), Chunked::EStargz)
        .soci(16_384)
        .build();
    let layer = &image.layers[0];
    let (toc, ztoc) = ztoc_of(&image, layer).unwrap();
    let index = toc.parse(&ztoc, &Limits::default()).unwrap();
    assert!(index.chunks() > 3, "{}", index.chunks());
    let (found, gone, opaque) = of_index(&index, &layer.bytes);
    for (name, expected) in &expected {
        assert!(found[name] == *expected, "{name}");
    }
    assert_eq!(found.len(), expected.len());
    assert_eq!(
        (gone, opaque),
        (vec!["etc/gone".into()], vec!["fresh".into()])
    );
    for other in &image.layers[1..] {
        assert!(ztoc_of(&image, other).is_none());
    }
}
