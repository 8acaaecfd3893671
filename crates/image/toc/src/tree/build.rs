//! Construction of the tree.

use std::collections::BTreeMap;

use super::entry::{Entry, Is};
use super::links::Link;
use super::path::{Asks, Path};
use super::texts::{self, Texts};
use crate::error::at_most;
use crate::index::{Draft, DraftNode, FLAG_IMPLICIT, FLAG_OPAQUE, Storage};
use crate::limits::PATH_MAX;
use crate::{Error, Kind, Limits, Mtime, Problem, Result};

const ROOT: u32 = 0;

/// A tree under construction. An entry replaces an earlier one of the same name, as if the layer was unpacked. But an
/// entry cannot change a directory to another kind, or the other way round.
pub(crate) struct Tree<'l> {
    pub(super) limits: &'l Limits,
    pub(super) nodes: Vec<DraftNode>,
    pub(super) names: BTreeMap<(u32, Box<[u8]>), u32>,
    pub(super) texts: Texts,
    /// Hard links whose target is not in the tree yet.
    pub(super) links: Vec<Link>,
    /// The most recently used directory with its parents: the next entry is usually in the same one.
    last: Vec<(Box<[u8]>, u32)>,
    seen: u32,
}

impl<'l> Tree<'l> {
    pub(crate) fn new(limits: &'l Limits) -> Self {
        Self {
            limits,
            nodes: vec![DraftNode::implicit()],
            names: BTreeMap::new(),
            texts: Texts::default(),
            links: Vec::new(),
            last: Vec::new(),
            seen: 0,
        }
    }

    /// Adds an entry. Returns the node of a file, which then needs its content.
    pub(crate) fn add(&mut self, entry: &Entry<'_>) -> Result<Option<u32>> {
        self.seen = self.seen.saturating_add(1);
        at_most("entries", self.seen.into(), self.limits.entries.into())?;
        let bad = |problem| Error::entry(entry.name, problem);
        let path = Path::parse(entry.name, self.limits).map_err(bad)?;
        match path.asks().map_err(bad)? {
            Asks::Nothing => {}
            Asks::Root => match entry.is {
                Is::Directory => {
                    let node = self.node(entry)?;
                    self.describe(ROOT, node);
                }
                _ => return Err(bad(Problem::Conflict)),
            },
            Asks::Opaque(directories) => {
                let directory = self.directory(directories, entry.name)?;
                self.nodes[directory as usize].flags |= FLAG_OPAQUE;
            }
            Asks::Gone(directories, name) => {
                let directory = self.directory(directories, entry.name)?;
                let gone = DraftNode {
                    kind: Kind::Whiteout,
                    permissions: 0,
                    flags: 0,
                    ..DraftNode::implicit()
                };
                self.put(directory, name, gone, entry.name)?;
            }
            Asks::There(directories, name) => {
                if let Is::HardLink { target } = entry.is {
                    self.link(&path, target, entry.name)?;
                    return Ok(None);
                }
                let directory = self.directory(directories, entry.name)?;
                let node = self.node(entry)?;
                let node = self.put(directory, name, node, entry.name)?;
                return Ok(matches!(entry.is, Is::File { .. }).then_some(node));
            }
        }
        Ok(None)
    }

    /// Creates the node of an entry.
    fn node(&mut self, entry: &Entry<'_>) -> Result<DraftNode> {
        let bad = |problem| Error::entry(entry.name, problem);
        let xattrs = texts::xattrs(&entry.xattrs, self.limits).map_err(bad)?;
        let mut node = DraftNode {
            kind: Kind::Directory,
            permissions: entry.permissions,
            flags: 0,
            uid: entry.uid,
            gid: entry.gid,
            mtime: entry.mtime,
            xattrs: self.texts.keep_xattrs(xattrs, self.limits)?,
            first: 0,
            count: 0,
            size: 0,
        };
        match entry.is {
            Is::Directory => {}
            // Hard links have no node of their own.
            Is::HardLink { .. } => return Err(bad(Problem::Kind)),
            Is::File { size } => (node.kind, node.size) = (Kind::File, size),
            Is::Fifo => node.kind = Kind::Fifo,
            Is::Device { kind, major, minor } => {
                node.kind = kind;
                node.size = u64::from(major) << 32 | u64::from(minor);
            }
            Is::Symlink { target } => {
                if target.is_empty() || target.len() > PATH_MAX || target.contains(&0) {
                    return Err(bad(Problem::Target));
                }
                node.kind = Kind::Symlink;
                node.first = self.texts.keep(target, self.limits)?;
                node.count = target.len() as u32;
                node.size = u64::from(node.count);
            }
        }
        Ok(node)
    }

    /// Puts a node into a directory, replacing an existing one; returns the resulting node.
    fn put(&mut self, directory: u32, name: &[u8], node: DraftNode, full: &[u8]) -> Result<u32> {
        let found = self.names.get(&(directory, name.into())).copied();
        let Some(there) = found else {
            let new = self.new_node(node)?;
            self.name(directory, name, new)?;
            return Ok(new);
        };
        let (kind, flags) = {
            let there = &mut self.nodes[there as usize];
            (there.kind, &mut there.flags)
        };
        match (kind, node.kind) {
            (Kind::Directory, Kind::Directory) => {
                self.describe(there, node);
                Ok(there)
            }
            // The directory already hides the entry of lower layers.
            (Kind::Directory, Kind::Whiteout) => {
                *flags |= FLAG_OPAQUE;
                Ok(there)
            }
            (_, Kind::Whiteout) => Ok(there),
            (Kind::Whiteout, kind) => {
                let opaque = if kind == Kind::Directory {
                    FLAG_OPAQUE
                } else {
                    0
                };
                let new = self.new_node(DraftNode {
                    flags: node.flags | opaque,
                    ..node
                })?;
                self.names.insert((directory, name.into()), new);
                Ok(new)
            }
            (Kind::Directory, _) | (_, Kind::Directory) => {
                Err(Error::entry(full, Problem::Conflict))
            }
            _ => {
                let new = self.new_node(node)?;
                self.names.insert((directory, name.into()), new);
                Ok(new)
            }
        }
    }

    /// Adds another name of a node.
    pub(super) fn put_link(
        &mut self,
        directory: u32,
        name: &[u8],
        node: u32,
        full: &[u8],
    ) -> Result<()> {
        let key = (directory, name.into());
        match self.names.get_mut(&key) {
            None => self.name(directory, name, node),
            Some(there) if self.nodes[*there as usize].kind == Kind::Directory => {
                Err(Error::entry(full, Problem::Conflict))
            }
            Some(there) => {
                *there = node;
                Ok(())
            }
        }
    }

    /// Returns the directory with this path; creates missing ones.
    pub(super) fn directory(&mut self, names: &[&[u8]], full: &[u8]) -> Result<u32> {
        let mut at = self.keep_common(names);
        for name in &names[self.last.len()..] {
            at = match self.names.get(&(at, (*name).into())) {
                Some(node) if self.nodes[*node as usize].kind == Kind::Directory => *node,
                Some(node) if self.nodes[*node as usize].kind != Kind::Whiteout => {
                    return Err(Error::entry(full, Problem::Conflict));
                }
                _ => self.put(at, name, DraftNode::implicit(), full)?,
            };
            self.last.push(((*name).into(), at));
        }
        Ok(at)
    }

    /// Returns the node with this path, if it exists.
    pub(super) fn find(&self, names: &[&[u8]]) -> Option<u32> {
        let common = self.common(names);
        let mut at = self.reached(common);
        for name in &names[common..] {
            at = *self.names.get(&(at, (*name).into()))?;
        }
        Some(at)
    }

    fn keep_common(&mut self, names: &[&[u8]]) -> u32 {
        let common = self.common(names);
        self.last.truncate(common);
        self.reached(common)
    }

    /// Returns how many names the path shares with the most recently used directory.
    fn common(&self, names: &[&[u8]]) -> usize {
        let both = self.last.iter().zip(names);
        both.take_while(|((last, _), name)| **last == ***name)
            .count()
    }

    fn reached(&self, names: usize) -> u32 {
        let last = names.checked_sub(1).and_then(|last| self.last.get(last));
        last.map_or(ROOT, |(_, node)| *node)
    }

    fn new_node(&mut self, node: DraftNode) -> Result<u32> {
        at_most(
            "entries",
            self.nodes.len() as u64,
            self.limits.entries.into(),
        )?;
        self.nodes.push(node);
        Ok(self.nodes.len() as u32 - 1)
    }

    fn name(&mut self, directory: u32, name: &[u8], node: u32) -> Result<()> {
        // Each name also needs an entry and a map key.
        self.texts.count(name.len(), self.limits)?;
        at_most(
            "entries",
            self.names.len() as u64,
            self.limits.entries.into(),
        )?;
        self.names.insert((directory, name.into()), node);
        Ok(())
    }

    /// Replaces a directory's attributes. It still hides the contents of lower layers if it did before.
    fn describe(&mut self, directory: u32, node: DraftNode) {
        let there = &mut self.nodes[directory as usize];
        // A directory without an entry of its own has no attributes.
        if node.flags & FLAG_IMPLICIT == 0 {
            let flags = there.flags & FLAG_OPAQUE | node.flags;
            *there = DraftNode { flags, ..node };
        }
    }

    /// Returns the complete tree, without file contents.
    pub(crate) fn finish<'a>(mut self, storage: Storage, blob: u64) -> Result<Draft<'a>> {
        self.resolve_links()?;
        Ok(Draft {
            storage,
            blob,
            prioritized: 0,
            nodes: self.nodes,
            names: self.names,
            texts: self.texts.bytes,
            chunks: Vec::new(),
            spans: Vec::new(),
            windows: Vec::new(),
        })
    }

    /// Sets the position of a file's content.
    pub(crate) fn place(&mut self, node: u32, first: u32, count: u32) {
        let node = &mut self.nodes[node as usize];
        (node.first, node.count) = (first, count);
    }
}

impl DraftNode {
    /// Returns a directory without an entry of its own.
    fn implicit() -> Self {
        Self {
            kind: Kind::Directory,
            permissions: 0o755,
            flags: FLAG_IMPLICIT,
            uid: 0,
            gid: 0,
            mtime: Mtime::default(),
            xattrs: 0,
            first: 0,
            count: 0,
            size: 0,
        }
    }
}
