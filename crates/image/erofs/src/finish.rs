//! Completion of an image: directories, shared attributes and the superblock.

use crate::attributes::Kind;
use crate::crc::crc32c;
use crate::directory::{Extent, blocks, extent};
use crate::error::{Error, Result};
use crate::format::{
    BLOCK, BLOCK_BITS, COMPAT_CHECKSUM, COMPAT_MTIME, INCOMPAT_CHUNKED, INODE, INODE_LINKS, MAGIC,
    SLOT, SUPER_OFFSET, SUPER_SIZE, block_at,
};
use crate::image::Image;
use crate::inode::{Content, Record};
use crate::tree::{Directory, NodeId, Tree};
use crate::xattr::Sharing;

/// The root's inode follows the superblock: its number only has 16 bits, so it cannot be at the end.
const ROOT_POSITION: u64 = (SUPER_OFFSET + SUPER_SIZE) as u64;

/// Summary of a finished image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Size of the file.
    pub bytes: u64,
    /// Number of inodes that have a name.
    pub inodes: u64,
    /// Number of written bytes of file contents, including those of replaced files.
    pub content_bytes: u64,
}

/// The location of a directory.
#[derive(Debug, Clone, Copy)]
struct Plan {
    id: NodeId,
    extent: Extent,
    /// Whether its last block follows its inode.
    has_tail: bool,
}

impl Plan {
    /// Returns the number of blocks that do not follow the inode.
    fn blocks(&self) -> u32 {
        self.extent.full + u32::from(!self.has_tail)
    }
}

impl Image {
    /// Writes the rest of the image. The file is complete then, but not synced to disk.
    pub fn finish(mut self) -> Result<Summary> {
        self.stream.align()?;
        let (plans, end) = self.plan()?;
        let root = self.write_inodes(&plans, end)?;
        self.stream.align()?;
        self.write_blocks(&plans)?;
        let xattr_block = self.begin_blocks()?;
        self.stream.push(&self.shared.bytes())?;
        let bytes = self.stream.align()?;
        self.packs.end(&mut self.stream)?;
        self.write_link_counts()?;
        let inodes = plans.len() as u64 + self.tree.leaves().count() as u64;
        let superblock = self.superblock(xattr_block, bytes, inodes)?;
        self.write_first_block(superblock, &root)?;
        self.stream.end()?;
        Ok(Summary {
            bytes,
            inodes,
            content_bytes: self.content_bytes,
        })
    }

    /// Assigns an inode number to each directory, because its parent and its children refer to it. Also returns the
    /// position of the directories' blocks.
    fn plan(&mut self) -> Result<(Vec<Plan>, u64)> {
        let mut placer = self.packs.placer();
        let mut end = self.stream.position();
        let (mut plans, mut numbers) = (Vec::new(), Vec::new());
        for (id, directory) in self.tree.directories() {
            let xattrs = &directory.attributes.xattrs;
            let body = self.shared.encode(xattrs, sharing(id))?;
            let (extent, inode) = (extent(id, directory), (INODE + body.len()) as u64);
            let room = if id == Tree::ROOT {
                BLOCK - ROOT_POSITION
            } else {
                BLOCK
            };
            let has_tail = extent.last < BLOCK as usize && inode + extent.last as u64 <= room;
            let tail = if has_tail { extent.last as u64 } else { 0 };
            numbers.push(match id {
                Tree::ROOT => ROOT_POSITION / SLOT,
                _ => placer.place(inode + tail, &mut end) / SLOT,
            });
            plans.push(Plan {
                id,
                extent,
                has_tail,
            });
        }
        for (plan, number) in plans.iter().zip(numbers) {
            if let Some(directory) = self.tree.directory_mut(plan.id) {
                directory.nid = number;
            }
        }
        Ok((plans, end))
    }

    /// Writes the inodes of directories, whose blocks begin at `position`. Returns the root's inode.
    fn write_inodes(&mut self, plans: &[Plan], mut position: u64) -> Result<Vec<u8>> {
        let mut root = Vec::new();
        for plan in plans {
            let first = block_at(position).ok_or(Error::ImageSize)?;
            let number = self.next_number();
            let Some(directory) = self.tree.directory(plan.id) else {
                continue;
            };
            let xattrs = &directory.attributes.xattrs;
            let body = self.shared.encode(xattrs, sharing(plan.id))?;
            let tail = self.tail(plan, directory)?;
            let size = plan.extent.size();
            let record = Record {
                kind: Kind::Directory,
                attributes: &directory.attributes,
                xattrs: &body,
                links: 2 + directory.subdirectories,
                number,
                content: match &tail {
                    Some(tail) => Content::Tail { first, size, tail },
                    None => Content::Blocks { first, size },
                },
            };
            let record = record.encode();
            if plan.id == Tree::ROOT {
                root = record;
            } else {
                let planned = directory.nid;
                let place = self.packs.put(&record, &mut self.stream)?;
                assert_eq!(place / SLOT, planned, "an inode is at its planned position");
            }
            position += u64::from(plan.blocks()) * BLOCK;
        }
        Ok(root)
    }

    fn tail(&self, plan: &Plan, directory: &Directory) -> Result<Option<Vec<u8>>> {
        if !plan.has_tail {
            return Ok(None);
        }
        let mut tail = Vec::new();
        blocks(&self.tree, plan.id, directory, |block| {
            tail.clear();
            tail.extend(block);
            Ok(())
        })?;
        Ok(Some(tail))
    }

    fn write_blocks(&mut self, plans: &[Plan]) -> Result<()> {
        for plan in plans {
            let Some(directory) = self.tree.directory(plan.id) else {
                continue;
            };
            let mut left = plan.blocks();
            let stream = &mut self.stream;
            blocks(&self.tree, plan.id, directory, |block| {
                if left > 0 {
                    left -= 1;
                    stream.push(block)?;
                    stream.align()?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Corrects the link counts of inodes that got further names after they were written.
    fn write_link_counts(&mut self) -> Result<()> {
        for leaf in self.tree.leaves().filter(|leaf| leaf.links != 1) {
            let position = leaf.nid * SLOT + INODE_LINKS;
            self.stream.fill(&leaf.links.to_le_bytes(), position)?;
        }
        Ok(())
    }

    /// Encodes the superblock without its checksum.
    fn superblock(&self, xattr_block: u32, bytes: u64, inodes: u64) -> Result<Vec<u8>> {
        let blocks = block_at(bytes).ok_or(Error::ImageSize)?;
        let incompatible = if self.has_chunks { INCOMPAT_CHUNKED } else { 0 };
        let mut superblock = Vec::with_capacity(SUPER_SIZE);
        superblock.extend(MAGIC.to_le_bytes());
        superblock.extend([0; 4]);
        superblock.extend((COMPAT_CHECKSUM | COMPAT_MTIME).to_le_bytes());
        superblock.extend([BLOCK_BITS, 0]);
        superblock.extend(((ROOT_POSITION / SLOT) as u16).to_le_bytes());
        superblock.extend(inodes.to_le_bytes());
        superblock.extend(self.options.build_time.to_le_bytes());
        superblock.extend([0; 4]);
        superblock.extend(blocks.to_le_bytes());
        // Inode numbers count from the image's start.
        superblock.extend([0; 4]);
        superblock.extend(xattr_block.to_le_bytes());
        superblock.extend(self.options.uuid);
        superblock.extend([0; 16]);
        superblock.extend(incompatible.to_le_bytes());
        superblock.resize(SUPER_SIZE, 0);
        Ok(superblock)
    }

    fn write_first_block(&mut self, superblock: Vec<u8>, root: &[u8]) -> Result<()> {
        let mut block = superblock;
        block.extend(root);
        block.resize(BLOCK as usize - SUPER_OFFSET, 0);
        let checksum = crc32c(&block);
        block[4..8].copy_from_slice(&checksum.to_le_bytes());
        self.stream.fill(&block, SUPER_OFFSET as u64)
    }
}

fn sharing(id: NodeId) -> Sharing {
    match id {
        Tree::ROOT => Sharing::All,
        _ => Sharing::WhereRoom,
    }
}
