//! Nodes and their attributes.

use super::Kind;
use super::bytes::{u16_at, u32_at, u64_at};
use super::kind::PERMISSIONS;
use super::layout::{ATTRIBUTES, NODE};
use super::read::{Damaged, Index, ROOT};

pub(crate) const FLAG_OPAQUE: u16 = 1;
pub(crate) const FLAG_IMPLICIT: u16 = 2;

/// The modification time of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Mtime {
    /// Seconds since 1970, negative before.
    pub seconds: i64,
    /// Nanoseconds, less than 10⁹.
    pub nanoseconds: u32,
}

/// A file, directory or other object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// The node's number.
    pub number: u32,
    /// The kind of the node.
    pub kind: Kind,
    /// The permissions: the lower twelve bits of the mode.
    pub permissions: u16,
    /// The user ID of the owner.
    pub uid: u32,
    /// The group ID.
    pub gid: u32,
    /// The modification time.
    pub mtime: Mtime,
    /// The number of hard links; for a directory, including those of its subdirectories.
    pub links: u32,
    /// Size of a file, or of a symbolic link's target.
    pub size: u64,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// The parent of a directory; the root is its own parent.
    pub parent: u32,
    /// Whether a directory hides the contents of lower layers.
    pub opaque: bool,
    /// Whether a directory has no entry of its own, only entries below it. The lower layers determine its attributes.
    pub implicit: bool,
    pub(super) first: u32,
    pub(super) count: u32,
    xattrs: u32,
}

/// An extended attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Xattr<'a> {
    /// The name with its name space, such as `user.x`.
    pub name: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

impl<B: AsRef<[u8]>> Index<B> {
    /// Returns the node of a number; `None` if it does not exist.
    pub fn node(&self, number: u32) -> Result<Option<Node>, Damaged> {
        if number < ROOT || number > self.nodes() {
            return Ok(None);
        }
        self.read_node(number).map(Some).ok_or(Damaged)
    }

    fn read_node(&self, number: u32) -> Option<Node> {
        let bytes = self.bytes();
        let at = self.layout.nodes.start + (number - ROOT) as usize * NODE;
        let attributes = u32_at(bytes, at)?;
        let (first, count) = (u32_at(bytes, at + 4)?, u32_at(bytes, at + 8)?);
        let size = u64_at(bytes, at + 12)?;
        if attributes >= self.layout.counts.attributes {
            return None;
        }
        let at = self.layout.attributes.start + attributes as usize * ATTRIBUTES;
        let mode = u16_at(bytes, at)?;
        let flags = u16_at(bytes, at + 2)?;
        let kind = Kind::of(mode)?;
        let is = |wanted: &[Kind]| wanted.contains(&kind);
        Some(Node {
            number,
            kind,
            permissions: mode & PERMISSIONS,
            uid: u32_at(bytes, at + 8)?,
            gid: u32_at(bytes, at + 12)?,
            mtime: Mtime {
                seconds: u64_at(bytes, at + 16)?.cast_signed(),
                nanoseconds: u32_at(bytes, at + 24)?,
            },
            links: u32_at(bytes, at + 4)?,
            size: if is(&[Kind::File, Kind::Symlink]) {
                size
            } else {
                0
            },
            device: if is(&[Kind::Character, Kind::Block]) {
                ((size >> 32) as u32, size as u32)
            } else {
                (0, 0)
            },
            parent: if is(&[Kind::Directory]) {
                size as u32
            } else {
                0
            },
            opaque: flags & FLAG_OPAQUE != 0,
            implicit: flags & FLAG_IMPLICIT != 0,
            first,
            count,
            xattrs: u32_at(bytes, at + 28)?,
        })
    }

    /// Returns a symbolic link's target; empty for other nodes.
    pub fn target(&self, node: &Node) -> Result<&[u8], Damaged> {
        if node.kind != Kind::Symlink {
            return Ok(&[]);
        }
        let texts = self.bytes().get(self.layout.texts.clone()).ok_or(Damaged)?;
        let end = node.first.checked_add(node.count).ok_or(Damaged)?;
        texts.get(node.first as usize..end as usize).ok_or(Damaged)
    }

    /// Returns those extended attributes of a node that an image is allowed to set.
    pub fn xattrs(
        &self,
        node: &Node,
    ) -> Result<impl Iterator<Item = Result<Xattr<'_>, Damaged>>, Damaged> {
        let texts = self.bytes().get(self.layout.texts.clone()).ok_or(Damaged)?;
        let (mut rest, count) = match (node.xattrs as usize).checked_sub(1) {
            None => (&[][..], 0),
            Some(at) => (
                texts.get(at + 2..).ok_or(Damaged)?,
                u16_at(texts, at).ok_or(Damaged)?,
            ),
        };
        Ok((0..count).map(move |_| {
            let (xattr, behind) = split_xattr(rest).ok_or(Damaged)?;
            rest = behind;
            Ok(xattr)
        }))
    }
}

fn split_xattr(bytes: &[u8]) -> Option<(Xattr<'_>, &[u8])> {
    let name = usize::from(u16_at(bytes, 0)?);
    let value = u32_at(bytes, 2)? as usize;
    let (name, rest) = bytes.get(6..)?.split_at_checked(name)?;
    let (value, rest) = rest.split_at_checked(value)?;
    Some((Xattr { name, value }, rest))
}
