//! Files here as an archive.

use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, bail};
use orlop_order::Order as _;
use rustix::fs::OFlags;
use tar::{Builder, EntryType, Header};
use tokio_util::sync::CancellationToken;

use super::{Copied, Keep};

/// Directories nested deeper are refused: somebody is playing games.
const MAX_DEPTH: usize = 512;

/// Writes what is at `path` as an archive in which it is called `name`.
pub(super) fn pack(
    path: &Path,
    name: &str,
    to: impl Write,
    keep: Keep,
    cancelled: &CancellationToken,
) -> anyhow::Result<Copied> {
    let mut packer = Packer {
        archive: Builder::new(BufWriter::with_capacity(64 << 10, to)),
        keep,
        copied: Copied::default(),
        cancelled: cancelled.clone(),
    };
    let metadata =
        fs::symlink_metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    packer.add(path, Path::new(name), &metadata, 0)?;
    packer.archive.into_inner()?.flush()?;
    Ok(packer.copied)
}

struct Packer<W: Write> {
    archive: Builder<W>,
    keep: Keep,
    copied: Copied,
    cancelled: CancellationToken,
}

impl<W: Write> Packer<W> {
    fn add(
        &mut self,
        path: &Path,
        name: &Path,
        metadata: &Metadata,
        depth: usize,
    ) -> anyhow::Result<()> {
        if self.cancelled.is_cancelled() {
            bail!("interrupted");
        }
        let failed = || format!("cannot read {}", path.display());
        let kind = metadata.file_type();
        let mut header = self.header(metadata);
        if kind.is_dir() {
            if depth >= MAX_DEPTH {
                bail!("{} is nested too deeply", path.display());
            }
            header.set_entry_type(EntryType::Directory);
            self.archive.append_data(&mut header, name, io::empty())?;
            let mut entries = fs::read_dir(path)
                .and_then(Iterator::collect::<io::Result<Vec<_>>>)
                .with_context(failed)?;
            entries.order_by_key(fs::DirEntry::file_name);
            for entry in entries {
                let metadata = entry.metadata().with_context(failed)?;
                self.add(
                    &entry.path(),
                    &name.join(entry.file_name()),
                    &metadata,
                    depth + 1,
                )?;
            }
        } else if kind.is_file() {
            let file = open_file(path).with_context(failed)?;
            header.set_entry_type(EntryType::Regular);
            header.set_size(metadata.len());
            // One that grows or shrinks meanwhile must keep to the size it was announced with.
            let mut exactly = Exactly {
                file,
                left: metadata.len(),
            };
            self.archive.append_data(&mut header, name, &mut exactly)?;
            self.copied.files += 1;
            self.copied.bytes += metadata.len();
        } else if kind.is_symlink() {
            let target = fs::read_link(path).with_context(failed)?;
            header.set_entry_type(EntryType::Symlink);
            self.archive.append_link(&mut header, name, target)?;
        } else {
            let what = if kind.is_socket() {
                "a socket"
            } else {
                "a device or pipe"
            };
            say!("warning: {} is {what} and left out", path.display());
            self.copied.left_out += 1;
        }
        Ok(())
    }

    fn header(&self, metadata: &Metadata) -> Header {
        let mut header = Header::new_gnu();
        header.set_size(0);
        header.set_mtime(u64::try_from(metadata.mtime()).unwrap_or(0));
        match self.keep {
            // The container's root owns what is put there.
            Keep::Plain => {
                header.set_mode(metadata.mode() & 0o777);
                header.set_uid(0);
                header.set_gid(0);
            }
            Keep::Owners => {
                header.set_mode(metadata.mode() & 0o7777);
                header.set_uid(metadata.uid().into());
                header.set_gid(metadata.gid().into());
            }
        }
        header
    }
}

/// A file that is no link and no pipe, whatever has taken its place since it was looked at: a container may write there.
pub(super) fn open_file(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = File::options();
    let file = options.read(true).custom_flags(flags.bits().cast_signed());
    let file = file.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no file any more"));
    }
    Ok(file)
}

/// So many bytes of a file, with zeros for what is missing.
struct Exactly {
    file: File,
    left: u64,
}

impl Read for Exactly {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        if room == 0 {
            return Ok(0);
        }
        let read = match self.file.read(&mut buffer[..room])? {
            0 => {
                buffer[..room].fill(0);
                room
            }
            read => read,
        };
        self.left -= read as u64;
        Ok(read)
    }
}
