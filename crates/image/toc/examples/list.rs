//! Lists what a layer holds, by its table of contents alone, with the digests of all files.
//!
//! `list LAYER ANNOTATIONS.json` for eStargz and zstd:chunked, `list LAYER MANIFEST.json ZTOC` for SOCI.
//! What it needs of the layer it reads bit by bit, as a node would fetch it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::error::Error;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::time::Instant;

use aws_lc_rs::digest::{Context, SHA256};
use orlop_toc::{Claim, Compression, Content, Digest, Index, Kind, Limits, Node, ROOT, Step, soci};

type Anything<T> = Result<T, Box<dyn Error>>;

fn main() -> Anything<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (layer, promised, ztoc) = match &arguments[..] {
        [layer, promised] => (layer, promised, None),
        [layer, promised, ztoc] => (layer, promised, Some(ztoc)),
        _ => return Err("which layer, and what is promised of it?".into()),
    };
    let layer = File::open(layer)?;
    let promised = whole(promised)?;
    let begun = Instant::now();
    let index = match ztoc {
        None => in_the_layer(&layer, &promised)?,
        Some(ztoc) => beside_the_layer(&layer, &promised, &whole(ztoc)?)?,
    };
    index.check()?;
    eprintln!(
        "{} nodes, {} chunks, {} bytes of index, made in {:?}; {} bytes are wanted soon",
        index.nodes(),
        index.chunks(),
        index.bytes().len(),
        begun.elapsed(),
        index.prioritized(),
    );
    list(&layer, &index)
}

fn in_the_layer(layer: &File, annotations: &[u8]) -> Anything<Index<Vec<u8>>> {
    let annotations: BTreeMap<String, String> = serde_json::from_slice(annotations)?;
    let limits = Limits::default();
    let length = layer.metadata()?.len();
    let magic = read(layer, 0..4)?;
    let compression = match &magic[..] {
        [0x1f, 0x8b, ..] => Compression::Gzip,
        _ => Compression::Zstd,
    };
    let claim = Claim::of(compression, |name| {
        annotations.get(name).map(String::as_str)
    })?;
    let claim = claim.ok_or("nothing is promised")?;
    let toc = match claim.begin(length, &limits)? {
        Step::Table(toc) => toc,
        Step::Footer(range) => claim.locate(&read(layer, range)?, length, &limits)?,
    };
    Ok(toc.parse(&read(layer, toc.range())?, &limits)?)
}

fn beside_the_layer(layer: &File, manifest: &[u8], ztoc: &[u8]) -> Anything<Index<Vec<u8>>> {
    let limits = Limits::default();
    let length = layer.metadata()?.len();
    let digest = Digest::of(&read(layer, 0..length)?);
    let manifest = soci::Manifest::parse(manifest, Digest::of(manifest))?;
    let named = manifest.toc(digest, length, &limits)?;
    let (_, toc) = named.ok_or("the index has no ztoc of the layer")?;
    Ok(toc.parse(ztoc, &limits)?)
}

fn whole(path: &str) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    read(&file, 0..file.metadata()?.len())
}

fn read(layer: &File, range: Range<u64>) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    layer.read_exact_at(&mut bytes, range.start)?;
    Ok(bytes)
}

fn list(layer: &File, index: &Index<Vec<u8>>) -> Anything<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut opened = BTreeMap::new();
    let mut waiting = vec![(Vec::new(), ROOT)];
    while let Some((path, number)) = waiting.pop() {
        let node = index.node(number)?.ok_or("a name of no node")?;
        for named in index.list(&node, 0) {
            let named = named?;
            waiting.push(([&path[..], b"/", named.name].concat(), named.node));
        }
        let more = match node.kind {
            Kind::File => content(layer, index, &node, &mut opened)?,
            Kind::Symlink => String::from_utf8_lossy(index.target(&node)?).into_owned(),
            Kind::Character | Kind::Block => format!("{:?}", node.device),
            _ => String::new(),
        };
        let mut xattrs = String::new();
        for xattr in index.xattrs(&node)? {
            let xattr = xattr?;
            let name = String::from_utf8_lossy(xattr.name);
            write!(xattrs, " {name}={}", orlop_text::hex::encode(xattr.value))?;
        }
        writeln!(
            out,
            "{} {:?} {:o} {}:{} {} {} {more}{xattrs}",
            String::from_utf8_lossy(&path),
            node.kind,
            node.permissions,
            node.uid,
            node.gid,
            node.mtime.seconds,
            if node.kind == Kind::File {
                node.size
            } else {
                0
            },
        )?;
    }
    Ok(out.flush()?)
}

/// So many chunks are kept that were opened: others may be in them, too.
const OPENED: usize = 160;

/// The digest of a file's content.
fn content(
    layer: &File,
    index: &Index<Vec<u8>>,
    file: &Node,
    opened: &mut BTreeMap<u32, Vec<u8>>,
) -> Anything<String> {
    let mut hasher = Context::new(&SHA256);
    for extent in index.extents(file, 0..file.size)? {
        let extent = extent?;
        let length = (extent.range.end - extent.range.start) as usize;
        match extent.content {
            Content::Zeros => hasher.update(&vec![0; length]),
            Content::Chunk { chunk, at } => {
                if opened.len() == OPENED {
                    opened.clear();
                }
                let content = match opened.entry(chunk.number()) {
                    Entry::Occupied(content) => content.into_mut(),
                    Entry::Vacant(room) => room.insert(chunk.open(&read(layer, chunk.range())?)?),
                };
                hasher.update(&content[at as usize..at as usize + length]);
            }
        }
    }
    Ok(orlop_text::hex::encode(hasher.finish().as_ref()))
}
