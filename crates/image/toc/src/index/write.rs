//! Encoding of an index.

use std::collections::{BTreeMap, HashMap};

use super::attributes::Mtime;
use super::layout::{ATTRIBUTES, CHUNK, Counts, HEADER, Layout, Storage};
use super::{Index, Kind};
use crate::error::at_most;
use crate::window::Window;
use crate::{Digest, Error, Result};

/// The contents of a new index. Nodes are identified by their position here; the first one is the root.
pub(crate) struct Draft<'a> {
    pub(crate) storage: Storage,
    pub(crate) blob: u64,
    pub(crate) prioritized: u64,
    pub(crate) nodes: Vec<DraftNode>,
    /// The node of each name in each directory.
    pub(crate) names: BTreeMap<(u32, Box<[u8]>), u32>,
    pub(crate) texts: Vec<u8>,
    pub(crate) chunks: Vec<DraftChunk>,
    pub(crate) spans: Vec<DraftSpan>,
    pub(crate) windows: Vec<&'a Window>,
}

/// A node. The index format defines `first`, `count` and `size`; those of directories are computed from the names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DraftNode {
    pub(crate) kind: Kind,
    pub(crate) permissions: u16,
    pub(crate) flags: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mtime: Mtime,
    pub(crate) xattrs: u32,
    pub(crate) first: u32,
    pub(crate) count: u32,
    pub(crate) size: u64,
}

/// A chunk of a file; zeros if it has no stored bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DraftChunk {
    pub(crate) begin: u64,
    pub(crate) offset: u64,
    pub(crate) stored: u32,
    pub(crate) skip: u32,
    pub(crate) length: u32,
    pub(crate) digest: Digest,
}

/// A span of the layer; the last one only marks the end of the previous one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DraftSpan {
    pub(crate) offset: u64,
    pub(crate) out: u64,
    pub(crate) bits: u8,
    pub(crate) digest: Digest,
}

/// Nodes in the order of their numbers, and the number of names of each.
struct Numbered {
    numbers: Vec<u32>,
    order: Vec<u32>,
    links: Vec<u32>,
}

/// Encodes the index. Omits nodes without a name, and their chunks.
pub(crate) fn write(mut draft: Draft<'_>) -> Result<Index<Vec<u8>>> {
    let (numbered, names, entries) = number(&mut draft);
    let mut nodes = Vec::new();
    let mut attributes = Attributes::default();
    let mut chunks = Vec::new();
    let mut digests = Vec::new();
    for at in &numbered.order {
        let mut node = draft.nodes[*at as usize];
        if node.kind == Kind::Directory {
            node.size = u64::from(numbered.numbers[node.size as usize]);
        }
        if node.kind == Kind::File && draft.storage.has_chunks() {
            let first = chunks.len() / CHUNK;
            let range = node.first as usize..node.first as usize + node.count as usize;
            for chunk in &draft.chunks[range] {
                chunk.put(&mut chunks);
                digests.extend_from_slice(&chunk.digest.0);
            }
            node.first = first as u32;
        }
        nodes.extend_from_slice(
            &attributes
                .of(&node, numbered.links[*at as usize])
                .to_le_bytes(),
        );
        nodes.extend_from_slice(&node.first.to_le_bytes());
        nodes.extend_from_slice(&node.count.to_le_bytes());
        nodes.extend_from_slice(&node.size.to_le_bytes());
    }
    let mut spans = Vec::new();
    for span in &draft.spans {
        span.put(&mut spans);
    }
    let counts = Counts {
        nodes: numbered.order.len() as u32,
        entries: draft.names.len() as u32,
        attributes: attributes.known.len() as u32,
        chunks: (chunks.len() / CHUNK) as u32,
        spans: draft.spans.len().saturating_sub(1) as u32,
        windows: draft.windows.len() as u32,
        names: fits("bytes of names", names.len())?,
        texts: fits("bytes of texts", draft.texts.len())?,
    };
    let layout = Layout::new(draft.storage, draft.blob, draft.prioritized, counts);
    let layout = layout.ok_or(Error::TooMuch {
        what: "bytes of an index",
        found: u64::MAX,
        most: usize::MAX as u64,
    })?;
    let mut bytes = Vec::with_capacity(layout.length());
    bytes.resize(HEADER, 0);
    let parts = [
        nodes,
        entries,
        attributes.bytes,
        chunks,
        digests,
        spans,
        names,
    ];
    for part in parts.iter().chain([&draft.texts]) {
        bytes.extend_from_slice(part);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    for window in draft.windows {
        bytes.extend_from_slice(window);
    }
    layout.seal(&mut bytes);
    Ok(Index { bytes, layout })
}

/// Numbers the nodes; also returns the encoded names and entries.
fn number(draft: &mut Draft<'_>) -> (Numbered, Vec<u8>, Vec<u8>) {
    let mut numbered = Numbered {
        numbers: vec![0; draft.nodes.len()],
        order: Vec::new(),
        links: vec![0; draft.nodes.len()],
    };
    numbered.give(0);
    numbered.links[0] = 2;
    let mut names = Vec::new();
    let mut entries = Vec::new();
    for (at, ((parent, name), node)) in draft.names.iter().enumerate() {
        let number = numbered.give(*node);
        entries.extend_from_slice(&(names.len() as u32).to_le_bytes());
        entries.extend_from_slice(&number.to_le_bytes());
        names.extend_from_slice(name);
        let directory = &mut draft.nodes[*parent as usize];
        if directory.count == 0 {
            directory.first = at as u32;
        }
        directory.count += 1;
        let child = &mut draft.nodes[*node as usize];
        numbered.links[*node as usize] += 1;
        if child.kind == Kind::Directory {
            child.size = u64::from(*parent);
            numbered.links[*node as usize] += 1;
            numbered.links[*parent as usize] += 1;
        }
    }
    entries.extend_from_slice(&(names.len() as u32).to_le_bytes());
    entries.extend_from_slice(&[0; 4]);
    (numbered, names, entries)
}

impl Numbered {
    fn give(&mut self, node: u32) -> u32 {
        let number = &mut self.numbers[node as usize];
        if *number == 0 {
            self.order.push(node);
            *number = self.order.len() as u32;
        }
        *number
    }
}

/// Attributes of nodes, without duplicates.
#[derive(Default)]
struct Attributes {
    known: HashMap<[u8; ATTRIBUTES], u32>,
    bytes: Vec<u8>,
}

impl Attributes {
    fn of(&mut self, node: &DraftNode, links: u32) -> u32 {
        let mut record = [0; ATTRIBUTES];
        let mode = node.kind.bits() | node.permissions;
        record[..2].copy_from_slice(&mode.to_le_bytes());
        record[2..4].copy_from_slice(&node.flags.to_le_bytes());
        record[4..8].copy_from_slice(&links.to_le_bytes());
        record[8..12].copy_from_slice(&node.uid.to_le_bytes());
        record[12..16].copy_from_slice(&node.gid.to_le_bytes());
        record[16..24].copy_from_slice(&node.mtime.seconds.to_le_bytes());
        record[24..28].copy_from_slice(&node.mtime.nanoseconds.to_le_bytes());
        record[28..].copy_from_slice(&node.xattrs.to_le_bytes());
        let next = self.known.len() as u32;
        *self.known.entry(record).or_insert_with(|| {
            self.bytes.extend_from_slice(&record);
            next
        })
    }
}

impl DraftChunk {
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.begin.to_le_bytes());
        bytes.extend_from_slice(&self.offset.to_le_bytes());
        bytes.extend_from_slice(&self.stored.to_le_bytes());
        bytes.extend_from_slice(&self.skip.to_le_bytes());
        bytes.extend_from_slice(&self.length.to_le_bytes());
    }
}

impl DraftSpan {
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.offset.to_le_bytes());
        bytes.extend_from_slice(&self.out.to_le_bytes());
        bytes.extend_from_slice(&u64::from(self.bits).to_le_bytes());
        bytes.extend_from_slice(&self.digest.0);
    }
}

fn fits(what: &'static str, bytes: usize) -> Result<u32> {
    at_most(what, bytes as u64, u32::MAX.into())?;
    Ok(bytes as u32)
}
