//! The image writer.

use std::fs::File;
use std::ops::Range;

use crate::attributes::{Attributes, Kind, Xattrs};
use crate::error::{Error, Limit, Result};
use crate::format::{BLOCK, INODE, SLOT, TARGET, block_at, device};
use crate::inode::{Content, Record};
use crate::pack::Packs;
use crate::stream::Stream;
use crate::tree::{Node, NodeId, Tree, joined, missing};
use crate::xattr::{Shared, Sharing};

/// Maximum size of a content that is stored with its inode.
///
/// A content in the block of its inode saves a block. At this size, two inodes with their contents fill a block. A
/// longer content would need nearly a whole block in either form, and inodes that are read together would be farther
/// apart.
const SMALL: usize = BLOCK as usize / 2 - INODE;

/// Options and limits of an image. The same entries with the same options give the same bytes.
#[derive(Debug, Clone)]
pub struct Options {
    /// The creation time in seconds since 1970; not used for files.
    pub build_time: u64,
    /// The identifier.
    pub uuid: [u8; 16],
    /// Maximum number of names.
    pub max_entries: u32,
    /// Maximum number of bytes of names.
    pub max_name_bytes: u64,
    /// Maximum number of bytes of extended attributes.
    pub max_xattr_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            build_time: 0,
            uuid: [0; 16],
            max_entries: 2_000_000,
            max_name_bytes: 128 << 20,
            max_xattr_bytes: 64 << 20,
        }
    }
}

/// An image that is written sequentially to a file.
///
/// Paths are lists of names from the root. All components except the last must be directories; symbolic links are not
/// followed. A new entry replaces an existing one, with everything below it.
#[derive(Debug)]
pub struct Image {
    pub(crate) options: Options,
    pub(crate) stream: Stream,
    pub(crate) packs: Packs,
    pub(crate) tree: Tree,
    pub(crate) shared: Shared,
    /// Whether any file has holes.
    pub(crate) has_chunks: bool,
    /// Number of written inodes.
    pub(crate) inodes: u32,
    pub(crate) content_bytes: u64,
    xattr_bytes: u64,
}

impl Image {
    /// Starts an image in an empty file. Its root is a directory of mode 0755 until it is set.
    pub fn create(file: File, options: Options) -> Result<Self> {
        let root = Attributes {
            mode: 0o755,
            ..Attributes::default()
        };
        let mut stream = Stream::new(file);
        // The first block contains the superblock and the root.
        stream.skip(BLOCK)?;
        Ok(Self {
            stream,
            packs: Packs::new(),
            tree: Tree::new(root, options.max_entries, options.max_name_bytes),
            shared: Shared::default(),
            has_chunks: false,
            inodes: 0,
            content_bytes: 0,
            xattr_bytes: 0,
            options,
        })
    }

    /// Returns the type of the file at a path; does not follow a symbolic link at its end.
    pub fn kind_at(&self, path: &[&[u8]]) -> Option<Kind> {
        self.tree.get(self.tree.find(path)?).kind()
    }

    /// Returns the attributes of the directory at a path. Those of other files are not kept in memory.
    pub fn attributes(&self, path: &[&[u8]]) -> Option<&Attributes> {
        let directory = self.tree.directory(self.tree.find(path)?)?;
        Some(&directory.attributes)
    }

    /// Changes the attributes of the directory at a path.
    pub fn set_attributes(&mut self, path: &[&[u8]], attributes: Attributes) -> Result<()> {
        let id = self.tree.find(path).ok_or_else(|| missing(path))?;
        if self.tree.directory(id).is_none() {
            return Err(Error::NotADirectory(joined(path)));
        }
        self.check_xattrs(&attributes.xattrs)?;
        if let Some(directory) = self.tree.directory_mut(id) {
            directory.attributes = attributes;
        }
        Ok(())
    }

    /// Adds a directory. An existing one keeps its contents, and gets these attributes.
    pub fn directory(&mut self, path: &[&[u8]], attributes: Attributes) -> Result<()> {
        if self.kind_at(path) == Some(Kind::Directory) {
            return self.set_attributes(path, attributes);
        }
        let (parent, name) = self.tree.place(path)?;
        self.check_xattrs(&attributes.xattrs)?;
        let node = Node::directory(attributes, parent);
        self.tree.insert(parent, name, node).map(drop)
    }

    /// Reserves a range for contents that arrive later, aligned at both ends to `align`. Returns the range; the image
    /// continues after it.
    pub fn set_aside(&mut self, bytes: u64, align: u64) -> Result<Range<u64>> {
        let align = align.max(BLOCK).next_multiple_of(BLOCK);
        let position = self.stream.position();
        let begin = position.checked_next_multiple_of(align);
        let begin = begin.ok_or(Error::ImageSize)?;
        let end = begin.checked_add(bytes);
        let end = end.and_then(|end| end.checked_next_multiple_of(align));
        let end = end.filter(|end| block_at(*end).is_some());
        let end = end.ok_or(Error::ImageSize)?;
        self.stream.skip(end - position)?;
        Ok(begin..end)
    }

    /// Adds a regular file whose content is in a reserved range, starting at a block boundary.
    pub fn placed(
        &mut self,
        path: &[&[u8]],
        attributes: &Attributes,
        size: u64,
        position: u64,
    ) -> Result<()> {
        let end = position.checked_add(size);
        if !position.is_multiple_of(BLOCK) || end.is_none_or(|end| end > self.stream.position()) {
            return Err(Error::ImageSize);
        }
        let place = self.tree.place(path)?;
        let xattrs = self.encode_xattrs(&attributes.xattrs)?;
        let content = match size {
            0 => Content::Nothing,
            size => Content::Blocks {
                first: block_at(position).ok_or(Error::ImageSize)?,
                size,
            },
        };
        self.content_bytes += size;
        self.put(place, Kind::File, attributes, &xattrs, content)
            .map(drop)
    }

    /// Returns the target of the symbolic link at a path.
    pub fn target_at(&self, path: &[&[u8]]) -> Option<&[u8]> {
        self.tree.target(self.tree.find(path)?)
    }

    /// Reports whether two paths are names of the same inode.
    pub fn is_same(&self, one: &[&[u8]], other: &[&[u8]]) -> bool {
        let (one, other) = (self.tree.find(one), self.tree.find(other));
        one.is_some() && one == other
    }

    /// Adds a hard link to an existing file, which must not be a directory.
    pub fn link(&mut self, existing: &[&[u8]], new: &[&[u8]]) -> Result<()> {
        let id = self.tree.find(existing).ok_or_else(|| missing(existing))?;
        if self.tree.directory(id).is_some() {
            return Err(Error::LinkToDirectory(joined(existing)));
        }
        let (parent, name) = self.tree.place(new)?;
        self.tree.link(id, parent, name)
    }

    /// Adds a symbolic link.
    pub fn symlink(
        &mut self,
        path: &[&[u8]],
        attributes: &Attributes,
        target: &[u8],
    ) -> Result<()> {
        if target.is_empty() || target.len() > TARGET || target.contains(&0) {
            return Err(Error::Target(target.len()));
        }
        let place = self.tree.place(path)?;
        let xattrs = self.encode_xattrs(&attributes.xattrs)?;
        let size = target.len() as u64;
        let content = if INODE + xattrs.len() + target.len() <= BLOCK as usize {
            let (first, tail) = (0, target);
            Content::Tail { first, size, tail }
        } else {
            let first = self.begin_blocks()?;
            self.stream.push(target)?;
            Content::Blocks { first, size }
        };
        let link = self.put(place, Kind::Symlink, attributes, &xattrs, content)?;
        self.tree.set_target(link, target)
    }

    /// Adds a device: a [`Kind::Character`] or a [`Kind::Block`].
    pub fn device(
        &mut self,
        path: &[&[u8]],
        attributes: &Attributes,
        kind: Kind,
        (major, minor): (u32, u32),
    ) -> Result<()> {
        let packed = device(major, minor)
            .filter(|_| matches!(kind, Kind::Character | Kind::Block))
            .ok_or(Error::Device(major, minor))?;
        let place = self.tree.place(path)?;
        let xattrs = self.encode_xattrs(&attributes.xattrs)?;
        let content = Content::Device(packed);
        self.put(place, kind, attributes, &xattrs, content)
            .map(drop)
    }

    /// Adds a named pipe.
    pub fn fifo(&mut self, path: &[&[u8]], attributes: &Attributes) -> Result<()> {
        let place = self.tree.place(path)?;
        let xattrs = self.encode_xattrs(&attributes.xattrs)?;
        let content = Content::Nothing;
        self.put(place, Kind::Fifo, attributes, &xattrs, content)
            .map(drop)
    }

    /// Removes a file or directory, with everything below it; returns whether it existed.
    pub fn remove(&mut self, path: &[&[u8]]) -> Result<bool> {
        if path.is_empty() {
            return Err(Error::Root);
        }
        match self.tree.find(path) {
            Some(_) => {
                let (parent, name) = self.tree.place(path)?;
                Ok(self.tree.remove(parent, name))
            }
            None => Ok(false),
        }
    }

    /// Writes an inode, and adds its name.
    pub(crate) fn put(
        &mut self,
        (parent, name): (NodeId, &[u8]),
        kind: Kind,
        attributes: &Attributes,
        xattrs: &[u8],
        content: Content<'_>,
    ) -> Result<NodeId> {
        let record = Record {
            kind,
            attributes,
            xattrs,
            links: 1,
            number: self.next_number(),
            content,
        };
        let position = self.packs.put(&record.encode(), &mut self.stream)?;
        let node = Node::leaf(kind, position / SLOT);
        self.tree.insert(parent, name, node)
    }

    /// Starts a content in separate blocks.
    pub(crate) fn begin_blocks(&mut self) -> Result<u32> {
        let position = self.stream.align()?;
        block_at(position).ok_or(Error::ImageSize)
    }

    pub(crate) fn next_number(&mut self) -> u32 {
        self.inodes = self.inodes.wrapping_add(1);
        self.inodes
    }

    /// Reports whether a file of this size is stored with its inode.
    pub(crate) fn is_small(xattrs: &[u8], size: u64) -> bool {
        size <= SMALL as u64 && INODE + xattrs.len() + size as usize <= BLOCK as usize
    }

    pub(crate) fn encode_xattrs(&mut self, xattrs: &Xattrs) -> Result<Vec<u8>> {
        self.count_xattrs(xattrs)?;
        self.shared.encode(xattrs, Sharing::WhereRoom)
    }

    /// Refuses attributes that could not be written later.
    fn check_xattrs(&mut self, xattrs: &Xattrs) -> Result<()> {
        self.count_xattrs(xattrs)?;
        Shared::default().encode(xattrs, Sharing::All).map(drop)
    }

    fn count_xattrs(&mut self, xattrs: &Xattrs) -> Result<()> {
        let sizes = xattrs.iter().map(|(name, value)| name.len() + value.len());
        let count = self.xattr_bytes + sizes.sum::<usize>() as u64;
        if count > self.options.max_xattr_bytes {
            let limit = Limit::XattrBytes(self.options.max_xattr_bytes);
            return Err(Error::TooMany(limit));
        }
        self.xattr_bytes = count;
        Ok(())
    }
}
