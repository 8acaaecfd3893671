//! Writes a tape while a layer is unpacked.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use super::format::{END, FILE, LITERAL, LITERAL_RUN};
use crate::tar::Record;
use crate::unpack::RecordFiles;
use crate::{Error, Result};

/// Compression level. The fastest level compresses headers well, because they are mostly zeros. Other levels are no
/// better in an installed program: the Makefile leaves out their code.
const LEVEL: i32 = 1;

/// Recorder of an archive.
pub(crate) struct Recorder {
    out: zstd::stream::write::Encoder<'static, File>,
    literal: Vec<u8>,
    replayable: bool,
}

impl Recorder {
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let failed = |error| Error::at("creating", path, error);
        let file = File::create(path).map_err(failed)?;
        let out = zstd::stream::write::Encoder::new(file, LEVEL).map_err(failed)?;
        Ok(Self {
            out,
            literal: Vec::with_capacity(LITERAL_RUN),
            replayable: true,
        })
    }

    /// Finishes the tape, and returns whether the archive can be reconstructed.
    pub(crate) fn finish(mut self) -> Result<bool> {
        let mut end = || -> io::Result<()> {
            self.flush()?;
            self.out.write_all(&[END])
        };
        end()
            .and_then(|()| self.out.finish().map(drop))
            .map_err(|error| Error::io("saving the tar metadata of a layer", error))?;
        Ok(self.replayable)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.literal.is_empty() {
            return Ok(());
        }
        let length = u32::try_from(self.literal.len()).map_err(io::Error::other)?;
        self.out.write_all(&[LITERAL])?;
        self.out.write_all(&length.to_le_bytes())?;
        self.out.write_all(&self.literal)?;
        self.literal.clear();
        Ok(())
    }
}

impl Record for Recorder {
    fn literal(&mut self, bytes: &[u8]) -> io::Result<()> {
        for piece in bytes.chunks(LITERAL_RUN) {
            if self.literal.len() + piece.len() > LITERAL_RUN {
                self.flush()?;
            }
            self.literal.extend_from_slice(piece);
        }
        Ok(())
    }
}

impl RecordFiles for Recorder {
    fn content(&mut self, path: &[u8], offset: u64, length: u64) -> io::Result<()> {
        self.flush()?;
        let path_length = u16::try_from(path.len()).map_err(io::Error::other)?;
        self.out.write_all(&[FILE])?;
        self.out.write_all(&path_length.to_le_bytes())?;
        self.out.write_all(&offset.to_le_bytes())?;
        self.out.write_all(&length.to_le_bytes())?;
        self.out.write_all(path)
    }

    fn overwritten(&mut self) {
        self.replayable = false;
    }
}
