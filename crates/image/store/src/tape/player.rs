//! Reconstructs an archive from a tape and the files of its layer.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{OFlags, fstat};

use super::format::{END, FILE, LITERAL, LITERAL_RUN};
use crate::unpack::{LayerRoot, open_beneath};
use crate::{Error, Result};

/// Writes the archive of the layer at `root` to `out`. Fails if a file is missing or too short; only the archive's
/// digest detects other damage. Blocks.
pub(crate) fn play(tape: &Path, root: &Path, out: &mut impl Write) -> Result<()> {
    let root_dir = LayerRoot::open(root).map_err(|error| Error::at("opening", root, error))?;
    let file = File::open(tape).map_err(|error| Error::at("opening", tape, error))?;
    let mut tape_in = zstd::stream::read::Decoder::new(file)
        .map(BufReader::new)
        .map_err(|error| Error::at("reading", tape, error))?;
    let mut buffer = vec![0; 256 << 10];
    loop {
        let run = run(&mut tape_in).map_err(|error| Error::at("reading", tape, error))?;
        match run {
            Run::End => return Ok(()),
            Run::Literal(bytes) => out.write_all(&bytes).map_err(undelivered)?,
            Run::File {
                path,
                offset,
                length,
            } => {
                let name = || format!("{}/{}", root.display(), String::from_utf8_lossy(&path));
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
                let file = open_beneath(root_dir.fd(), &path, flags)
                    .map_err(|error| Error::io(format!("opening {}", name()), error.into()))?;
                let file = File::from(file);
                copy(&file, offset, length, &mut buffer, out).map_err(|failure| match failure {
                    Failure::Source(error) => Error::io(format!("reading {}", name()), error),
                    Failure::Sink(error) => undelivered(error),
                })?;
            }
        }
    }
}

/// Checks that all files on the tape exist and are long enough, without reading them. Blocks.
pub(crate) fn check_lengths(tape: &Path, root: &Path) -> Result<()> {
    let root_dir = LayerRoot::open(root).map_err(|error| Error::at("opening", root, error))?;
    let file = File::open(tape).map_err(|error| Error::at("opening", tape, error))?;
    let mut tape_in = zstd::stream::read::Decoder::new(file)
        .map(BufReader::new)
        .map_err(|error| Error::at("reading", tape, error))?;
    loop {
        let run = run(&mut tape_in).map_err(|error| Error::at("reading", tape, error))?;
        let (path, end) = match run {
            Run::End => return Ok(()),
            Run::Literal(_) => continue,
            Run::File {
                path,
                offset,
                length,
            } => (path, offset.saturating_add(length)),
        };
        let name = || format!("{}/{}", root.display(), String::from_utf8_lossy(&path));
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let look = open_beneath(root_dir.fd(), &path, flags)
            .and_then(fstat)
            .map_err(|error| Error::io(format!("checking {}", name()), error.into()))?;
        if u64::try_from(look.st_size).is_ok_and(|size| size < end) {
            return Err(Error::invalid(name(), "it is truncated"));
        }
    }
}

enum Run {
    Literal(Vec<u8>),
    File {
        path: Vec<u8>,
        offset: u64,
        length: u64,
    },
    End,
}

enum Failure {
    Source(io::Error),
    Sink(io::Error),
}

fn run(tape: &mut impl Read) -> io::Result<Run> {
    let malformed = || {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "the saved tar metadata of the layer is malformed",
        )
    };
    let [kind] = bytes(tape)?;
    match kind {
        LITERAL => {
            let length = u32::from_le_bytes(bytes(tape)?) as usize;
            if length > LITERAL_RUN {
                return Err(malformed());
            }
            let mut literal = vec![0; length];
            tape.read_exact(&mut literal)?;
            Ok(Run::Literal(literal))
        }
        FILE => {
            let path_length = u16::from_le_bytes(bytes(tape)?);
            let offset = u64::from_le_bytes(bytes(tape)?);
            let length = u64::from_le_bytes(bytes(tape)?);
            let mut path = vec![0; usize::from(path_length)];
            tape.read_exact(&mut path)?;
            Ok(Run::File {
                path,
                offset,
                length,
            })
        }
        END => Ok(Run::End),
        _ => Err(malformed()),
    }
}

fn copy(
    file: &File,
    mut offset: u64,
    mut length: u64,
    buffer: &mut [u8],
    out: &mut impl Write,
) -> Result<(), Failure> {
    while length > 0 {
        let take = buffer
            .len()
            .min(usize::try_from(length).unwrap_or(usize::MAX));
        file.read_exact_at(&mut buffer[..take], offset)
            .map_err(Failure::Source)?;
        out.write_all(&buffer[..take]).map_err(Failure::Sink)?;
        offset += take as u64;
        length -= take as u64;
    }
    Ok(())
}

fn bytes<const N: usize>(tape: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    tape.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn undelivered(error: io::Error) -> Error {
    Error::io("sending an archive", error)
}
