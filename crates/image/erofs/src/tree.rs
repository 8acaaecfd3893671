//! The names of an image, and their nodes.

use std::collections::BTreeMap;

use crate::attributes::{Attributes, Kind};
use crate::error::{Error, Limit, Result};
use crate::format::NAME;

/// Identifies a node of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeId(u32);

/// A node. Except for directories, only the inode number stays in memory.
#[derive(Debug)]
pub(crate) enum Node {
    Leaf(Leaf),
    Directory(Box<Directory>),
    /// Unused, can be allocated again.
    Free,
}

#[derive(Debug)]
pub(crate) struct Leaf {
    /// The number of its inode, which is already written.
    pub(crate) nid: u64,
    pub(crate) kind: Kind,
    /// Number of its names.
    pub(crate) links: u32,
}

#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) attributes: Attributes,
    pub(crate) children: BTreeMap<Box<[u8]>, NodeId>,
    pub(crate) parent: NodeId,
    /// Number of child directories.
    pub(crate) subdirectories: u32,
    /// The number of its inode, once the tree is complete.
    pub(crate) nid: u64,
}

/// A tree of names, in which a later entry replaces an earlier one.
#[derive(Debug)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    free: Vec<NodeId>,
    /// The targets of symbolic links.
    targets: BTreeMap<NodeId, Box<[u8]>>,
    entries: u32,
    name_bytes: u64,
    max_entries: u32,
    max_name_bytes: u64,
}

impl Tree {
    pub(crate) const ROOT: NodeId = NodeId(0);

    pub(crate) fn new(root: Attributes, max_entries: u32, max_name_bytes: u64) -> Self {
        Self {
            nodes: vec![Node::directory(root, Self::ROOT)],
            free: Vec::new(),
            targets: BTreeMap::new(),
            entries: 0,
            name_bytes: 0,
            max_entries,
            max_name_bytes,
        }
    }

    pub(crate) fn get(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    pub(crate) fn directory(&self, id: NodeId) -> Option<&Directory> {
        match self.get(id) {
            Node::Directory(directory) => Some(directory),
            _ => None,
        }
    }

    pub(crate) fn directory_mut(&mut self, id: NodeId) -> Option<&mut Directory> {
        match &mut self.nodes[id.0 as usize] {
            Node::Directory(directory) => Some(directory),
            _ => None,
        }
    }

    /// Returns all directories, the root first.
    pub(crate) fn directories(&self) -> impl Iterator<Item = (NodeId, &Directory)> {
        let nodes = self.nodes.iter().zip(0..);
        nodes.filter_map(|(node, id)| match node {
            Node::Directory(directory) => Some((NodeId(id), &**directory)),
            _ => None,
        })
    }

    /// Returns all other nodes that have a name.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = &Leaf> {
        self.nodes.iter().filter_map(|node| match node {
            Node::Leaf(leaf) => Some(leaf),
            _ => None,
        })
    }

    /// Returns the node at a path. Symbolic links are not followed.
    pub(crate) fn find(&self, path: &[&[u8]]) -> Option<NodeId> {
        path.iter().try_fold(Self::ROOT, |id, name| {
            self.directory(id)?.children.get(*name).copied()
        })
    }

    /// Returns the parent directory and the last name of a path. The root has none.
    pub(crate) fn place<'a>(&self, path: &[&'a [u8]]) -> Result<(NodeId, &'a [u8])> {
        let (name, parents) = path.split_last().ok_or(Error::Root)?;
        check_name(name)?;
        let id = self.find(parents).ok_or_else(|| missing(parents))?;
        if self.directory(id).is_none() {
            return Err(Error::NotADirectory(joined(parents)));
        }
        Ok((id, name))
    }

    /// Adds a new node with a name; removes the existing one.
    pub(crate) fn insert(&mut self, parent: NodeId, name: &[u8], node: Node) -> Result<NodeId> {
        self.make_room(parent, name)?;
        self.remove(parent, name);
        let id = if let Some(id) = self.free.pop() {
            self.nodes[id.0 as usize] = node;
            id
        } else {
            let id = NodeId(self.nodes.len() as u32);
            self.nodes.push(node);
            id
        };
        self.name(parent, name, id);
        Ok(id)
    }

    /// Stores the target of a symbolic link, which counts towards the limit of names.
    pub(crate) fn set_target(&mut self, link: NodeId, target: &[u8]) -> Result<()> {
        if self.name_bytes + target.len() as u64 > self.max_name_bytes {
            return Err(Error::TooMany(Limit::NameBytes(self.max_name_bytes)));
        }
        self.name_bytes += target.len() as u64;
        self.targets.insert(link, target.into());
        Ok(())
    }

    /// Returns the target of a symbolic link.
    pub(crate) fn target(&self, link: NodeId) -> Option<&[u8]> {
        self.targets.get(&link).map(|target| &**target)
    }

    /// Adds another name of an existing node; removes the existing entry.
    pub(crate) fn link(&mut self, leaf: NodeId, parent: NodeId, name: &[u8]) -> Result<()> {
        let had = self.directory(parent).and_then(|it| it.children.get(name));
        if had == Some(&leaf) {
            return Ok(());
        }
        self.make_room(parent, name)?;
        // Counted before the removal, which may remove a directory with the only other name.
        if let Node::Leaf(leaf) = &mut self.nodes[leaf.0 as usize] {
            leaf.links += 1;
        }
        self.remove(parent, name);
        self.name(parent, name, leaf);
        Ok(())
    }

    /// Removes a name and everything below it; returns whether it existed.
    pub(crate) fn remove(&mut self, parent: NodeId, name: &[u8]) -> bool {
        let Some(directory) = self.directory_mut(parent) else {
            return false;
        };
        let Some(id) = directory.children.remove(name) else {
            return false;
        };
        self.unname(name);
        let mut gone = vec![id];
        while let Some(id) = gone.pop() {
            let node = &mut self.nodes[id.0 as usize];
            if let Node::Leaf(leaf) = node
                && leaf.links > 1
            {
                leaf.links -= 1;
                continue;
            }
            self.free.push(id);
            if let Some(target) = self.targets.remove(&id) {
                self.name_bytes -= target.len() as u64;
            }
            if let Node::Directory(directory) = std::mem::replace(node, Node::Free) {
                if id != Self::ROOT && directory.parent == parent {
                    self.count_subdirectory(parent, -1);
                }
                for (name, child) in directory.children {
                    self.unname(&name);
                    gone.push(child);
                }
            }
        }
        true
    }

    fn make_room(&self, parent: NodeId, name: &[u8]) -> Result<()> {
        let replaces = self
            .directory(parent)
            .is_some_and(|directory| directory.children.contains_key(name));
        if replaces {
            return Ok(());
        }
        if self.entries >= self.max_entries {
            return Err(Error::TooMany(Limit::Entries(self.max_entries)));
        }
        if self.name_bytes + name.len() as u64 > self.max_name_bytes {
            return Err(Error::TooMany(Limit::NameBytes(self.max_name_bytes)));
        }
        Ok(())
    }

    fn name(&mut self, parent: NodeId, name: &[u8], id: NodeId) {
        self.entries += 1;
        self.name_bytes += name.len() as u64;
        if self.directory(id).is_some() {
            self.count_subdirectory(parent, 1);
        }
        if let Some(directory) = self.directory_mut(parent) {
            directory.children.insert(name.into(), id);
        }
    }

    fn unname(&mut self, name: &[u8]) {
        self.entries -= 1;
        self.name_bytes -= name.len() as u64;
    }

    fn count_subdirectory(&mut self, parent: NodeId, change: i32) {
        if let Some(directory) = self.directory_mut(parent) {
            directory.subdirectories = directory.subdirectories.saturating_add_signed(change);
        }
    }
}

impl Node {
    pub(crate) fn directory(attributes: Attributes, parent: NodeId) -> Self {
        Self::Directory(Box::new(Directory {
            attributes,
            children: BTreeMap::new(),
            parent,
            subdirectories: 0,
            nid: 0,
        }))
    }

    pub(crate) fn leaf(kind: Kind, nid: u64) -> Self {
        let links = 1;
        Self::Leaf(Leaf { nid, kind, links })
    }

    pub(crate) fn kind(&self) -> Option<Kind> {
        match self {
            Self::Leaf(leaf) => Some(leaf.kind),
            Self::Directory(_) => Some(Kind::Directory),
            Self::Free => None,
        }
    }

    /// Returns the number of its inode, if it has one.
    pub(crate) fn nid(&self) -> u64 {
        match self {
            Self::Leaf(leaf) => leaf.nid,
            Self::Directory(directory) => directory.nid,
            Self::Free => 0,
        }
    }
}

/// Joins the names of a path.
pub(crate) fn joined(path: &[&[u8]]) -> Vec<u8> {
    path.join(&b'/')
}

pub(crate) fn missing(path: &[&[u8]]) -> Error {
    Error::NotFound(joined(path))
}

fn check_name(name: &[u8]) -> Result<()> {
    let is_bad = name.is_empty()
        || name.len() > NAME
        || matches!(name, b"." | b"..")
        || name.iter().any(|byte| matches!(byte, 0 | b'/'));
    if is_bad {
        Err(Error::Name(name.to_vec()))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(entries: u32, name_bytes: u64) -> Tree {
        Tree::new(Attributes::default(), entries, name_bytes)
    }

    fn add(tree: &mut Tree, path: &[&[u8]], node: fn(NodeId) -> Node) -> Result<NodeId> {
        let (parent, name) = tree.place(path)?;
        tree.insert(parent, name, node(parent))
    }

    fn file(_: NodeId) -> Node {
        Node::leaf(Kind::File, 7)
    }

    fn directory(parent: NodeId) -> Node {
        Node::directory(Attributes::default(), parent)
    }

    #[test]
    fn what_is_taken_away_makes_room_again() {
        let mut tree = tree(3, 6);
        for _ in 0..100 {
            add(&mut tree, &[b"aa"], directory).expect("is the first, or replaces");
            add(&mut tree, &[b"aa", b"bb"], directory).expect("is the second");
            add(&mut tree, &[b"aa", b"bb", b"c"], file).expect("is the third");
            let (parent, name) = tree.place(&[b"aa"]).expect("is in the root");
            let fourth = add(&mut tree, &[b"d"], file);
            assert!(matches!(fourth, Err(Error::TooMany(Limit::Entries(3)))));
            assert!(tree.remove(parent, name));
        }
        assert_eq!((tree.entries, tree.name_bytes), (0, 0));
        assert!(tree.nodes.len() <= 4, "{}", tree.nodes.len());
        let long = add(&mut tree, &[b"1234567"], file);
        assert!(matches!(long, Err(Error::TooMany(Limit::NameBytes(6)))));
    }

    #[test]
    fn subdirectories_are_counted_whatever_replaces_them() {
        let mut tree = tree(100, 1000);
        add(&mut tree, &[b"a"], directory).expect("insert");
        add(&mut tree, &[b"b"], directory).expect("insert");
        add(&mut tree, &[b"a", b"c"], directory).expect("insert");
        let root = |tree: &Tree| tree.directory(Tree::ROOT).map(|it| it.subdirectories);
        assert_eq!(root(&tree), Some(2));
        add(&mut tree, &[b"a"], file).expect("replace");
        assert_eq!(root(&tree), Some(1));
        add(&mut tree, &[b"a"], directory).expect("replace");
        assert_eq!(root(&tree), Some(2));
    }

    #[test]
    fn a_link_may_take_the_place_of_the_directory_it_leads_into() {
        let mut tree = tree(100, 1000);
        add(&mut tree, &[b"a"], directory).expect("insert");
        let leaf = add(&mut tree, &[b"a", b"b"], file).expect("insert");
        let (parent, name) = tree.place(&[b"a"]).expect("is in the root");
        tree.link(leaf, parent, name).expect("link");
        assert_eq!(tree.find(&[b"a"]), Some(leaf));
        assert!(matches!(tree.get(leaf), Node::Leaf(leaf) if leaf.links == 1));
        assert_eq!(tree.entries, 1);
    }

    #[test]
    fn only_names_are_taken_and_only_below_directories() {
        let mut tree = tree(100, 1000);
        for name in [&b""[..], b".", b"..", b"a/b", b"a\0", &[b'x'; 256]] {
            assert!(matches!(
                add(&mut tree, &[name], file),
                Err(Error::Name(bad)) if bad == name
            ));
        }
        add(&mut tree, &[&[b'x'; 255]], file).expect("has the longest name");
        add(&mut tree, &[b"f"], file).expect("insert");
        let below = add(&mut tree, &[b"f", b"g"], file);
        assert!(matches!(below, Err(Error::NotADirectory(path)) if path == b"f"));
        let nowhere = add(&mut tree, &[b"f", b"g", b"h"], file);
        assert!(matches!(nowhere, Err(Error::NotFound(path)) if path == b"f/g"));
        assert!(matches!(add(&mut tree, &[], file), Err(Error::Root)));
    }
}
