//! File contents that arrive in parts.

use crate::attributes::{Attributes, Kind};
use crate::error::{Error, Result};
use crate::format::{BLOCK, NO_ADDRESS, block_at};
use crate::image::Image;
use crate::inode::Content;
use crate::tree::NodeId;

/// Maximum number of chunks per file: larger files have larger chunks.
const CHUNKS: u64 = 1 << 16;

/// Maximum file size. No file system from which an image could come has larger files.
const MAX_SIZE: u64 = 1 << 56;

/// Writer of one file's content, from beginning to end. Skipped ranges are holes, which read as zeros. Dropping it
/// before [`Self::finish`] leaves nothing in the tree.
#[derive(Debug)]
pub struct FileWriter<'a> {
    image: &'a mut Image,
    pending: Pending,
}

/// A file whose content is still incomplete, for [`Image::begin`], [`Image::write`] and [`Image::end`].
#[derive(Debug)]
pub struct Pending {
    parent: NodeId,
    name: Vec<u8>,
    attributes: Attributes,
    xattrs: Vec<u8>,
    size: u64,
    /// Number of written bytes.
    written: u64,
    kept: Kept,
}

/// The location of the content.
#[derive(Debug)]
enum Kept {
    /// In memory, until it is written after its inode.
    Small(Vec<u8>),
    /// In the image.
    Runs(Runs),
}

impl Image {
    /// Begins a regular file of this size. It appears in the tree when it is finished; until then an existing file at
    /// the path stays.
    pub fn file(
        &mut self,
        path: &[&[u8]],
        attributes: Attributes,
        size: u64,
    ) -> Result<FileWriter<'_>> {
        let pending = self.begin(path, attributes, size)?;
        Ok(FileWriter::new(self, pending))
    }

    /// Begins a file like [`Self::file`], for content that arrives in separate calls.
    pub fn begin(&mut self, path: &[&[u8]], attributes: Attributes, size: u64) -> Result<Pending> {
        let place = self.tree.place(path)?;
        let xattrs = self.encode_xattrs(&attributes.xattrs)?;
        Pending::new(place, attributes, xattrs, size)
    }

    /// Writes a part of a file after all parts written before.
    pub fn write(&mut self, file: &mut Pending, offset: u64, bytes: &[u8]) -> Result<()> {
        file.write_at(self, offset, bytes)
    }

    /// Adds a finished file to the tree.
    pub fn end(&mut self, file: Pending) -> Result<()> {
        file.finish(self)
    }
}

impl<'a> FileWriter<'a> {
    pub(crate) fn new(image: &'a mut Image, pending: Pending) -> Self {
        Self { image, pending }
    }

    /// Writes a part after all parts written before.
    pub fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.pending.write_at(self.image, offset, bytes)
    }

    /// Adds the file to the tree.
    pub fn finish(self) -> Result<()> {
        self.pending.finish(self.image)
    }
}

impl Pending {
    pub(crate) fn new(
        (parent, name): (NodeId, &[u8]),
        attributes: Attributes,
        xattrs: Vec<u8>,
        size: u64,
    ) -> Result<Self> {
        if size > MAX_SIZE {
            return Err(Error::FileSize(size));
        }
        let kept = if Image::is_small(&xattrs, size) {
            Kept::Small(vec![0; size as usize])
        } else {
            Kept::Runs(Runs::new(size))
        };
        Ok(Self {
            parent,
            name: name.to_vec(),
            attributes,
            xattrs,
            size,
            written: 0,
            kept,
        })
    }

    pub(crate) fn write_at(&mut self, image: &mut Image, offset: u64, bytes: &[u8]) -> Result<()> {
        let end = offset.checked_add(bytes.len() as u64);
        let Some(end) = end.filter(|end| *end <= self.size && offset >= self.written) else {
            return Err(Error::Order {
                offset,
                written: self.written,
                size: self.size,
            });
        };
        if bytes.is_empty() {
            return Ok(());
        }
        match &mut self.kept {
            Kept::Small(content) => {
                content[offset as usize..end as usize].copy_from_slice(bytes);
            }
            Kept::Runs(runs) => runs.write(image, offset, bytes)?,
        }
        self.written = end;
        image.content_bytes += bytes.len() as u64;
        Ok(())
    }

    pub(crate) fn finish(mut self, image: &mut Image) -> Result<()> {
        let size = self.size;
        let addresses;
        let content = match &mut self.kept {
            Kept::Small(content) if content.is_empty() => Content::Nothing,
            Kept::Small(content) => {
                let (first, tail) = (0, &content[..]);
                Content::Tail { first, size, tail }
            }
            Kept::Runs(_) if size == 0 => Content::Nothing,
            Kept::Runs(runs) => {
                runs.end_last(image)?;
                if let Some(first) = runs.as_one() {
                    Content::Blocks { first, size }
                } else {
                    image.has_chunks = true;
                    addresses = runs.addresses()?;
                    Content::Chunks {
                        bits: runs.chunk_bits,
                        size,
                        addresses: &addresses,
                    }
                }
            }
        };
        let place = (self.parent, &self.name[..]);
        let (attributes, xattrs) = (&self.attributes, &self.xattrs);
        image
            .put(place, Kind::File, attributes, xattrs, content)
            .map(drop)
    }
}

/// Content in blocks, with holes between them.
#[derive(Debug)]
struct Runs {
    size: u64,
    /// Number of blocks per chunk, as a power of two. A chunk is stored completely, or it is a hole.
    chunk_bits: u16,
    runs: Vec<Run>,
}

/// Chunks of a file that are contiguous in the image, too.
#[derive(Debug)]
struct Run {
    /// Offset of the first chunk in the file.
    begin: u64,
    /// Offset up to which the run is written.
    end: u64,
    /// Number of its first block in the image.
    first: u32,
}

impl Runs {
    fn new(size: u64) -> Self {
        let blocks = size.div_ceil(BLOCK);
        let larger = blocks.div_ceil(CHUNKS).next_power_of_two();
        Self {
            size,
            chunk_bits: larger.trailing_zeros() as u16,
            runs: Vec::new(),
        }
    }

    fn chunk(&self) -> u64 {
        BLOCK << self.chunk_bits
    }

    fn write(&mut self, image: &mut Image, offset: u64, bytes: &[u8]) -> Result<()> {
        let chunk = self.chunk();
        // No complete chunk is skipped.
        let goes_on = |run: &Run| offset < run.end.next_multiple_of(chunk) + chunk;
        if !self.runs.last().is_some_and(goes_on) {
            self.end_last(image)?;
            let begin = offset - offset % chunk;
            let first = image.begin_blocks()?;
            let end = begin;
            self.runs.push(Run { begin, end, first });
        }
        if let Some(run) = self.runs.last_mut() {
            image.stream.skip(offset - run.end)?;
            image.stream.push(bytes)?;
            run.end = offset + bytes.len() as u64;
        }
        Ok(())
    }

    /// Pads the last chunk of the last run.
    fn end_last(&mut self, image: &mut Image) -> Result<()> {
        let (chunk, size) = (self.chunk(), self.size);
        if let Some(run) = self.runs.last_mut() {
            let end = run.end.next_multiple_of(chunk).min(size);
            image.stream.skip(end - run.end)?;
            run.end = end;
        }
        Ok(())
    }

    /// Returns the first block if the content has no hole.
    fn as_one(&self) -> Option<u32> {
        match self.runs[..] {
            [Run { begin, end, first }] if begin == 0 && end == self.size => Some(first),
            _ => None,
        }
    }

    /// Returns the block of each chunk.
    fn addresses(&self) -> Result<Vec<u32>> {
        let chunk = self.chunk();
        let count = self.size.div_ceil(chunk) as usize;
        let mut addresses = vec![NO_ADDRESS; count];
        for run in &self.runs {
            let (from, to) = (run.begin / chunk, run.end.div_ceil(chunk));
            let of_run = &mut addresses[from as usize..to as usize];
            for (address, index) in of_run.iter_mut().zip(0..) {
                let position = u64::from(run.first) * BLOCK + index * chunk;
                *address = block_at(position).ok_or(Error::ImageSize)?;
            }
        }
        Ok(addresses)
    }
}
