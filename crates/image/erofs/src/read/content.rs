//! Contents of files, and targets of symbolic links.

use super::bytes::u32_at;
use super::inode::Layout;
use super::{Error, Inode, Reader, Result, Source};
use crate::attributes::Kind;
use crate::format::{NO_ADDRESS, TARGET};

/// A contiguous part of a content.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// The position; `None` for a hole.
    pub(super) position: Option<u64>,
    /// Number of bytes.
    pub(super) length: u64,
}

impl<S: Source> Reader<S> {
    /// Reads a file from an offset. Reads less than the buffer's size only at the file's end.
    pub fn read(&self, file: &Inode, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        if file.kind() != Kind::File {
            return Err(Error::Not("a regular file"));
        }
        self.read_content(file, offset, buffer)
    }

    /// Returns the target of a symbolic link.
    pub fn target(&self, link: &Inode) -> Result<Vec<u8>> {
        if link.kind() != Kind::Symlink {
            return Err(Error::Not("a symbolic link"));
        }
        if link.size() > TARGET as u64 {
            return Err(Error::Corrupt("the target of a link is too long"));
        }
        let mut target = vec![0; link.size() as usize];
        self.read_content(link, 0, &mut target)?;
        Ok(target)
    }

    pub(super) fn read_content(
        &self,
        inode: &Inode,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize> {
        let left = inode.size().saturating_sub(offset);
        let wanted = left.min(buffer.len() as u64) as usize;
        let mut done = 0;
        while done < wanted {
            let part = self.part(inode, offset + done as u64)?;
            let now = part.length.min((wanted - done) as u64) as usize;
            let bytes = &mut buffer[done..done + now];
            match part.position {
                Some(position) => self.read_bytes(bytes, position)?,
                None => bytes.fill(0),
            }
            done += now;
        }
        Ok(wanted)
    }

    /// Returns the part of a content that begins at an existing byte. It is never empty.
    pub(super) fn part(&self, inode: &Inode, offset: u64) -> Result<Part> {
        let left = inode.size() - offset;
        let part = |position, length| Part {
            position: Some(position),
            length,
        };
        match inode.layout {
            Layout::Blocks(begin) => Ok(part(begin + offset, left)),
            Layout::Tail { blocks, tail } => {
                let whole = inode.size() - inode.size() % self.block();
                Ok(if offset < whole {
                    part(blocks + offset, whole - offset)
                } else {
                    part(tail + (offset - whole), left)
                })
            }
            Layout::Chunks { bits, table, width } => {
                let (chunk, within) = (offset >> bits, offset & ((1 << bits) - 1));
                let mut entry = [0; 8];
                let entry = &mut entry[..width as usize];
                self.read_bytes(entry, table + chunk * width)?;
                if width == 8 && u32_at(entry, 0) >> 16 != 0 {
                    return Err(Error::Unsupported("several devices"));
                }
                let address = u32_at(entry, entry.len() - 4);
                let length = left.min((1 << bits) - within);
                if address == NO_ADDRESS {
                    let position = None;
                    return Ok(Part { position, length });
                }
                let position = (u64::from(address) << self.block_bits) + within;
                if position + length > self.length {
                    return Err(Error::Corrupt("a chunk is beyond the end of the image"));
                }
                Ok(part(position, length))
            }
        }
    }
}
