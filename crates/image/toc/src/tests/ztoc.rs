//! Ztocs of plain gzip layers.

use std::io::Write as _;

use orlop_testkit::image::ZtocParts;
use orlop_testkit::image::flat::{Value, build};

use super::archive::{self, content};
use super::honest::{read, walk};
use super::layer::compress;
use crate::soci::Manifest;
use crate::{Content, Digest, Index, Kind, Limits, OpenError, Result};

/// An archive, and the files in it.
#[derive(Default)]
pub(super) struct Archive {
    pub(super) tar: Vec<u8>,
    pub(super) files: Vec<Vec<Value>>,
}

impl Archive {
    pub(super) fn add(&mut self, kind: &str, name: &str, target: &str, content: &[u8]) {
        self.tar.extend(archive::header(name, content.len()));
        let records = vec![
            Value::Table(vec![
                Value::text("SCHILY.xattr.user.x"),
                Value::text(b"\xff\0"),
            ]),
            Value::Table(vec![Value::text("path"), Value::text(name)]),
        ];
        self.files.push(vec![
            Value::text(name),
            Value::text(kind),
            Value::Long(self.tar.len() as i64),
            Value::Long(content.len() as i64),
            Value::text(target),
            Value::Long(0o100_644),
            Value::Int(1000),
            Value::None,
            Value::text("user"),
            Value::text("group"),
            Value::text("2024-01-02T03:04:05.000000006Z"),
            Value::Long(5),
            Value::Long(1),
            Value::Vector(records),
        ]);
        self.tar.extend(content);
        self.tar.extend(archive::padding(content.len()));
    }

    pub(super) fn parts(&self, layer: &[u8], apart: u64) -> ZtocParts {
        ZtocParts::new(layer, apart, |archive| {
            assert!(archive == self.tar, "the content is another");
            self.files.clone()
        })
    }
}

pub(super) trait Indexed {
    fn index(self, limits: &Limits) -> Result<Index<Vec<u8>>>;
}

impl Indexed for ZtocParts {
    fn index(self, limits: &Limits) -> Result<Index<Vec<u8>>> {
        let layer = self.layer as u64;
        index(&self.build(), layer, limits)
    }
}

/// Looks up, fetches and parses a ztoc as a node does.
pub(super) fn index(ztoc: &[u8], layer: u64, limits: &Limits) -> Result<Index<Vec<u8>>> {
    let (digest, image) = (Digest::of(ztoc), Digest::of(b"layer"));
    let manifest = format!(
        r#"{{"config":{{"mediaType":"application/vnd.amazon.soci.index.v2+json","digest":"{digest}",
        "size":2}},"layers":[{{"mediaType":"application/octet-stream","digest":"{digest}",
        "size":{},"annotations":{{"com.amazon.soci.image-layer-digest":"{image}"}}}}]}}"#,
        ztoc.len()
    );
    let manifest = Manifest::parse(manifest.as_bytes(), Digest::of(manifest.as_bytes()))?;
    let (named, toc) = manifest.toc(image, layer, limits)?.unwrap();
    assert_eq!((named, toc.range()), (digest, 0..ztoc.len() as u64));
    toc.parse(ztoc, limits)
}

pub(super) fn archive() -> Archive {
    let mut archive = Archive::default();
    archive.add("dir", "etc/", "", b"");
    archive.add("reg", "etc/small", "", &content(1, 300));
    archive.add("reg", "large", "", &content(2, 300_000));
    archive.add("reg", "etc/empty", "", b"");
    archive.add("hardlink", "hard", "large", b"");
    archive.add("symlink", "soft", "../large", b"");
    archive.add("char", "tty", "", b"");
    archive.add("reg", "etc/.wh.gone", "", b"");
    archive.add("reg", "other", "", &content(3, 200_000));
    archive
}

fn check(archive: &Archive, layer: &[u8], index: &Index<Vec<u8>>) {
    index.check().unwrap();
    let found = walk(index);
    let names: Vec<_> = found.keys().map(String::as_str).collect();
    let expected = [
        "",
        "/etc",
        "/etc/empty",
        "/etc/gone",
        "/etc/small",
        "/hard",
        "/large",
        "/other",
        "/soft",
        "/tty",
    ];
    assert_eq!(names, expected);
    let whole = |name: &str| read(index, layer, &found[name], 0..u64::MAX).unwrap();
    assert!(whole("/etc/small") == content(1, 300));
    assert!(whole("/hard") == content(2, 300_000));
    assert!(whole("/other") == content(3, 200_000));
    assert!(whole("/etc/empty").is_empty());
    let large = &found["/large"];
    let part = read(index, layer, large, 99_990..250_010).unwrap();
    assert!(part == content(2, 300_000)[99_990..250_010]);
    assert_eq!((large.uid, large.gid, large.permissions), (1000, 0, 0o644));
    assert_eq!((large.mtime.nanoseconds, large.links), (6, 2));
    let xattrs: Vec<_> = index.xattrs(large).unwrap().map(Result::unwrap).collect();
    assert_eq!(xattrs.len(), 1);
    assert_eq!(
        (xattrs[0].name, xattrs[0].value),
        (&b"user.x"[..], &b"\xff\0"[..])
    );
    assert_eq!(found["/tty"].device, (5, 1));
    assert_eq!(found["/etc/gone"].kind, Kind::Whiteout);
    // All spans together are the archive.
    let mut all = Vec::new();
    for number in 0..index.chunks() {
        let chunk = index.chunk(number).unwrap().unwrap();
        let range = chunk.range().start as usize..chunk.range().end as usize;
        all.extend(chunk.open(&layer[range]).unwrap());
    }
    assert!(all == archive.tar);
    assert_eq!(index.chunk(index.chunks()), Ok(None));
}

#[test]
fn a_plain_gzip_layer_is_entered_at_its_checkpoints() {
    let mut archive = archive();
    archive.tar.extend(archive::end());
    let layer = compress(false, &archive.tar);
    let index = archive
        .parts(&layer, 20_000)
        .index(&Limits::default())
        .unwrap();
    assert!(index.chunks() > 8, "{}", index.chunks());
    check(&archive, &layer, &index);
    // At most the first byte of a span is shared with another span.
    for number in 1..index.chunks() {
        let before = index.chunk(number - 1).unwrap().unwrap().range();
        let range = index.chunk(number).unwrap().unwrap().range();
        assert!(before.end - range.start < 2);
    }
}

#[test]
fn a_layer_of_several_members_is_entered_at_its_checkpoints() {
    let archive = archive();
    let mut layer = Vec::new();
    for part in archive.tar.chunks(70_001) {
        layer.extend(compress(false, part));
    }
    // A header with optional fields.
    let header = flate2::GzBuilder::new()
        .filename("f")
        .comment("c")
        .extra("x");
    let mut encoder = header.write(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&[0; 512]).unwrap();
    layer.extend(encoder.finish().unwrap());
    let mut archive = archive;
    archive.tar.extend([0; 512]);
    let index = archive
        .parts(&layer, 20_000)
        .index(&Limits::default())
        .unwrap();
    check(&archive, &layer, &index);
}

#[test]
fn the_older_form_leaves_the_first_checkpoint_out() {
    let archive = archive();
    let layer = compress(false, &archive.tar);
    let mut parts = archive.parts(&layer, 20_000);
    parts.checkpoints.drain(12..12 + 17 + (32 << 10));
    check(&archive, &layer, &parts.index(&Limits::default()).unwrap());
}

#[test]
fn one_span_may_be_the_whole_layer() {
    let archive = archive();
    let layer = compress(false, &archive.tar);
    let index = archive
        .parts(&layer, 1 << 30)
        .index(&Limits::default())
        .unwrap();
    assert_eq!(index.chunks(), 1);
    check(&archive, &layer, &index);
}

#[test]
fn a_layer_that_is_not_compressed_has_spans_too() {
    let archive = archive();
    let layer = &archive.tar;
    let parts = plain(&archive, 65_536);
    let index = parts.index(&Limits::default()).unwrap();
    assert_eq!(index.chunks() as usize, layer.len().div_ceil(65_536));
    check(&archive, layer, &index);
}

pub(super) fn plain(archive: &Archive, apart: usize) -> ZtocParts {
    let layer = &archive.tar;
    let told = [
        Value::Int(2),
        Value::Long(apart as i64),
        Value::Long(layer.len() as i64),
    ];
    let digests = layer.chunks(apart).map(|span| Digest::of(span).to_string());
    let digests: Vec<_> = digests.collect();
    ZtocParts {
        version: "0.9",
        layer: layer.len() as i64,
        size: layer.len() as i64,
        files: archive.files.clone(),
        algorithm: Value::Byte(2),
        last: digests.len() as i32 - 1,
        digests,
        checkpoints: build(&told),
    }
}

#[test]
fn a_span_is_verified_before_it_is_decompressed() {
    let archive = archive();
    let layer = compress(false, &archive.tar);
    let index = archive
        .parts(&layer, 20_000)
        .index(&Limits::default())
        .unwrap();
    let file = walk(&index)["/other"];
    let extent = index.extents(&file, 0..1).unwrap().next().unwrap().unwrap();
    let Content::Chunk { chunk, .. } = extent.content else {
        panic!("nothing is fetched");
    };
    let mut fetched = layer[chunk.range().start as usize..chunk.range().end as usize].to_vec();
    assert!(chunk.open(&fetched).is_ok());
    fetched[100] ^= 1;
    let refused = chunk.open(&fetched);
    assert!(
        matches!(refused, Err(OpenError::Mismatch { .. })),
        "{refused:?}"
    );
}

#[test]
fn what_is_not_what_the_manifest_names_is_refused() {
    let archive = archive();
    let layer = compress(false, &archive.tar);
    let ztoc = archive.parts(&layer, 20_000).build();
    let toc = crate::Toc {
        form: crate::toc::Form::Soci(Digest::of(b"another")),
        range: 0..ztoc.len() as u64,
        payload: 0,
        blob: layer.len() as u64,
    };
    let refused = toc.parse(&ztoc, &Limits::default());
    assert!(matches!(refused, Err(crate::Error::Mismatch { .. })));
}
