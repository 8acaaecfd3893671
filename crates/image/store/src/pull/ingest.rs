//! A blob that is being downloaded: a file that downloads write in pieces while the unpacker reads it. Finished
//! pieces survive a restart.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::store::Layout;
use crate::turns::{Turn, Turns};
use crate::unpack::{Download, LayerMemory};
use crate::{Digest, Error, Result};

/// Blobs up to this size have one piece.
const SMALLEST_PIECE: u64 = 4 << 20;
/// Maximum number of pieces. Pieces of larger blobs are larger.
const MOST_PIECES: u64 = 256;

/// Maximum size of the map file, which is more than the lines of that many pieces need.
const MOST_NOTED: u64 = 64 << 10;

/// A blob being downloaded.
pub(crate) struct Ingest {
    data_path: PathBuf,
    map_path: PathBuf,
    data: File,
    /// One line per finished piece.
    map: Mutex<File>,
    size: u64,
    piece: u64,
    /// Bytes on disk, in all pieces.
    received: Arc<AtomicU64>,
    /// Bytes on disk from an earlier attempt.
    resumed: u64,
    state: Mutex<State>,
    grown: Condvar,
}

struct State {
    /// Number of bytes on disk of each piece, from its start.
    filled: Vec<u64>,
    /// The first piece that was not handed out yet.
    next: usize,
    /// The blob is complete up to this offset.
    prefix: u64,
    abandoned: bool,
}

impl Ingest {
    /// Opens the blob's files and determines which pieces are complete; `received` counts the bytes from now on. Each
    /// registry (`source`) has its own files, so that a bad or slow registry does not affect others. Blocks.
    pub(crate) fn open(
        layout: &Layout,
        digest: &Digest,
        source: &str,
        size: u64,
        received: Arc<AtomicU64>,
    ) -> Result<Self> {
        let source = Digest::of(source.as_bytes()).hex();
        let name = format!("{}.{}", digest.hex(), &source[..16]);
        let data_path = layout.ingest().join(format!("{name}.data"));
        let map_path = layout.ingest().join(format!("{name}.map"));
        let wanted = size
            .div_ceil(MOST_PIECES)
            .next_multiple_of(1 << 20)
            .max(SMALLEST_PIECE);
        let known = orlop_fs::read_text(&map_path, MOST_NOTED).unwrap_or_default();
        let mut lines = known.lines();
        let heading = format!("{size} {wanted}");
        let resumable = lines.next() == Some(heading.as_str());
        let open = |path: &PathBuf, truncate: bool| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(truncate)
                .open(path)
                .map_err(|error| Error::at("opening", path, error))
        };
        let data = open(&data_path, !resumable)?;
        let mut map = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&map_path)
            .map_err(|error| Error::at("opening", &map_path, error))?;
        let pieces = usize::try_from(size.div_ceil(wanted).max(1))
            .map_err(|_| Error::too_large("a layer", "the address space"))?;
        let mut filled = vec![0; pieces];
        if resumable {
            for piece in lines.filter_map(|line| line.parse::<usize>().ok()) {
                if let Some(filled) = filled.get_mut(piece) {
                    *filled = piece_length(size, wanted, piece);
                }
            }
        } else {
            map.set_len(0)
                .and_then(|()| writeln!(map, "{heading}"))
                .map_err(|error| Error::at("writing", &map_path, error))?;
        }
        let resumed = filled.iter().sum();
        received.store(resumed, Ordering::Relaxed);
        let mut ingest = Self {
            data_path,
            map_path,
            data,
            map: Mutex::new(map),
            size,
            piece: wanted,
            received,
            resumed,
            state: Mutex::new(State {
                filled,
                next: 0,
                prefix: 0,
                abandoned: false,
            }),
            grown: Condvar::new(),
        };
        let state = ingest.state.get_mut();
        state.prefix = prefix(&state.filled, size, wanted);
        Ok(ingest)
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Returns the counter of bytes on disk, which grows with every write.
    pub(crate) fn received(&self) -> &AtomicU64 {
        &self.received
    }

    /// Returns the number of bytes from an earlier attempt.
    pub(crate) fn resumed(&self) -> u64 {
        self.resumed
    }

    /// Hands out the start and end of the next incomplete piece. Pieces are in order, so that the unpacker can
    /// proceed.
    pub(super) fn take_piece(&self) -> Option<(u64, u64)> {
        let mut state = self.state();
        while state.next < state.filled.len() {
            let piece = state.next;
            state.next += 1;
            let start = piece as u64 * self.piece;
            let length = piece_length(self.size, self.piece, piece);
            if state.filled[piece] < length {
                return Some((start, start + length));
            }
        }
        None
    }

    /// Returns the offset at which the piece at `start` continues.
    pub(super) fn filled_to(&self, start: u64) -> u64 {
        let piece = usize::try_from(start / self.piece).unwrap_or(usize::MAX);
        start + self.state().filled.get(piece).copied().unwrap_or(0)
    }

    /// Writes bytes at `offset`, where a piece continues. May cross into the following pieces if those are empty.
    /// Blocks.
    pub(super) fn write(&self, mut offset: u64, pieces: &[Bytes]) -> Result<()> {
        for bytes in pieces {
            let mut bytes = &bytes[..];
            while !bytes.is_empty() {
                let piece = usize::try_from(offset / self.piece).unwrap_or(usize::MAX);
                let left =
                    piece as u64 * self.piece + piece_length(self.size, self.piece, piece) - offset;
                let take = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                self.data
                    .write_all_at(&bytes[..take], offset)
                    .map_err(|error| Error::at("writing", &self.data_path, error))?;
                offset += take as u64;
                bytes = &bytes[take..];
                if self.advance(piece, offset)? {
                    let mut map = self.map.lock();
                    // A single write keeps the line from being partial.
                    map.write_all(format!("{piece}\n").as_bytes())
                        .map_err(|error| Error::at("writing", &self.map_path, error))?;
                }
            }
        }
        Ok(())
    }

    /// Records that a piece is filled up to `offset`. Returns true if that completes it.
    fn advance(&self, piece: usize, offset: u64) -> Result<bool> {
        let mut state = self.state();
        if state.abandoned {
            return Err(Error::Cancelled("a download".to_owned()));
        }
        let filled = offset - piece as u64 * self.piece;
        let before = std::mem::replace(&mut state.filled[piece], filled);
        self.received
            .fetch_add(filled.saturating_sub(before), Ordering::Relaxed);
        let prefix = prefix_from(&state.filled, state.prefix, self.size, self.piece);
        if prefix > state.prefix {
            state.prefix = prefix;
            self.grown.notify_all();
        }
        Ok(filled == piece_length(self.size, self.piece, piece))
    }

    /// Makes all further reads and writes fail.
    pub(crate) fn abandon(&self) {
        self.state().abandoned = true;
        self.grown.notify_all();
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.state().abandoned
    }

    /// Removes the files. Blocks.
    pub(crate) fn discard(&self) {
        let remove = |path: &PathBuf| match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        for path in [&self.map_path, &self.data_path] {
            if let Err(error) = remove(path).or_else(|_| remove(path)) {
                tracing::warn!(path = %path.display(), %error, "cannot remove a download; a later cleanup removes it");
                // A map without its data would make the next pull of this blob trust missing data.
                return;
            }
        }
    }

    /// Moves the complete blob to `target`. Blocks.
    pub(crate) fn keep(&self, target: &std::path::Path) -> Result<()> {
        std::fs::rename(&self.data_path, target)
            .map_err(|error| Error::at("moving a layer to", target, error))?;
        self.discard();
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// A download, as seen by the layer that is unpacked from it.
pub(crate) struct Unpacking {
    ingest: Arc<Ingest>,
    turns: Arc<Turns>,
    /// Held while there are bytes to unpack.
    turn: Mutex<Option<Turn>>,
}

impl Unpacking {
    pub(crate) fn new(ingest: Arc<Ingest>, turns: Arc<Turns>) -> Arc<Self> {
        Arc::new(Self {
            ingest,
            turns,
            turn: Mutex::default(),
        })
    }

    fn resume(&self) {
        let mut turn = self.turn.lock();
        if turn.is_none() {
            *turn = Some(self.turns.take());
        }
    }
}

impl Download for Unpacking {
    fn is_complete(&self) -> io::Result<bool> {
        let state = self.ingest.state();
        if state.abandoned {
            return Err(given_up());
        }
        Ok(state.prefix == self.ingest.size)
    }

    fn pause(&self) {
        *self.turn.lock() = None;
    }
}

fn given_up() -> io::Error {
    io::Error::other("its download was cancelled")
}

/// Interval at which a layer that waits for bytes checks whether others need its memory.
const LOOK: Duration = Duration::from_millis(250);

/// A reader of a blob during its download, which waits for missing bytes.
pub(crate) struct IngestReader {
    download: Arc<Unpacking>,
    memory: Arc<LayerMemory>,
    at: u64,
    /// Number of bytes read, for progress reports.
    progress: Arc<AtomicU64>,
}

impl IngestReader {
    pub(crate) fn new(
        download: Arc<Unpacking>,
        memory: Arc<LayerMemory>,
        progress: Arc<AtomicU64>,
    ) -> Self {
        Self {
            download,
            memory,
            at: 0,
            progress,
        }
    }

    /// Waits until bytes can be read, and returns their number.
    fn wait(&self) -> io::Result<u64> {
        let ingest = &*self.download.ingest;
        let mut state = ingest.state();
        loop {
            if state.abandoned {
                return Err(given_up());
            }
            if state.prefix > self.at {
                return Ok(state.prefix - self.at);
            }
            // Other layers can use the turn meanwhile.
            self.download.pause();
            ingest.grown.wait_for(&mut state, LOOK);
            MutexGuard::unlocked(&mut state, || self.memory.keep())?;
        }
    }
}

impl Drop for IngestReader {
    fn drop(&mut self) {
        self.download.pause();
    }
}

impl Read for IngestReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.memory.is_displaced() {
            self.memory.keep()?;
        }
        let download = &*self.download;
        if self.at == download.ingest.size || into.is_empty() {
            download.pause();
            return Ok(0);
        }
        let there = usize::try_from(self.wait()?).unwrap_or(usize::MAX);
        download.resume();
        let take = there.min(into.len());
        let read = download.ingest.data.read_at(&mut into[..take], self.at)?;
        if read == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the downloaded file is truncated",
            ));
        }
        self.at += read as u64;
        self.progress.store(self.at, Ordering::Relaxed);
        Ok(read)
    }
}

fn piece_length(size: u64, piece: u64, index: usize) -> u64 {
    size.saturating_sub(index as u64 * piece).min(piece)
}

fn prefix(filled: &[u64], size: u64, piece: u64) -> u64 {
    prefix_from(filled, 0, size, piece)
}

/// Returns the end of the complete prefix, which is known to reach `known` at least.
fn prefix_from(filled: &[u64], known: u64, size: u64, piece: u64) -> u64 {
    let mut at = usize::try_from(known / piece).unwrap_or(usize::MAX);
    while let Some(have) = filled.get(at) {
        if *have < piece_length(size, piece, at) || *have == 0 {
            return at as u64 * piece + have;
        }
        at += 1;
    }
    size
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> (tempfile::TempDir, Layout) {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::create(dir.path()).unwrap();
        (dir, layout)
    }

    fn open(layout: &Layout, digest: &Digest, size: u64) -> Result<Ingest> {
        Ingest::open(layout, digest, "registry", size, Arc::default())
    }

    fn reader(ingest: &Arc<Ingest>, turns: &Arc<Turns>) -> IngestReader {
        let download = Unpacking::new(Arc::clone(ingest), Arc::clone(turns));
        IngestReader::new(download, LayerMemory::of_client(), Arc::default())
    }

    #[test]
    fn finished_pieces_survive_a_restart_and_unfinished_ones_do_not() {
        let (_dir, layout) = layout();
        let digest = Digest::of(b"blob");
        let piece = usize::try_from(SMALLEST_PIECE).unwrap();
        let size = 3 * SMALLEST_PIECE + 10;
        let blob: Vec<u8> = (0..size).map(|n| n as u8).collect();
        let bytes = |from: usize, to: usize| [Bytes::copy_from_slice(&blob[from..to])];
        let ingest = open(&layout, &digest, size).unwrap();
        ingest
            .write(SMALLEST_PIECE, &bytes(piece, 2 * piece))
            .unwrap();
        ingest.write(0, &bytes(0, 100)).unwrap();
        drop(ingest);

        let ingest = Arc::new(open(&layout, &digest, size).unwrap());
        assert_eq!(ingest.resumed(), SMALLEST_PIECE);
        assert_eq!(ingest.take_piece(), Some((0, SMALLEST_PIECE)));
        assert_eq!(
            ingest.take_piece(),
            Some((2 * SMALLEST_PIECE, 3 * SMALLEST_PIECE))
        );
        let reader = {
            let mut reader = reader(&ingest, &Turns::new(1));
            std::thread::spawn(move || {
                let mut all = Vec::new();
                reader.read_to_end(&mut all).map(|_| all)
            })
        };
        // Out of order, and the last write crosses the border of a piece.
        ingest
            .write(2 * SMALLEST_PIECE, &bytes(2 * piece, blob.len()))
            .unwrap();
        ingest.write(0, &bytes(0, piece)).unwrap();
        assert!(reader.join().unwrap().unwrap() == blob);
    }

    #[test]
    fn another_size_starts_anew() {
        let (_dir, layout) = layout();
        let digest = Digest::of(b"blob");
        let ingest = open(&layout, &digest, 4).unwrap();
        ingest.write(0, &[Bytes::from_static(b"abcd")]).unwrap();
        assert_eq!(open(&layout, &digest, 4).unwrap().resumed(), 4);
        assert_eq!(open(&layout, &digest, 5).unwrap().resumed(), 0);
    }

    #[test]
    fn who_waits_for_bytes_keeps_nobody_from_unpacking() {
        let (_dir, layout) = layout();
        let turns = Turns::new(1);
        let begin = |blob: &'static [u8], there: usize| {
            let digest = Digest::of(blob);
            let ingest = Arc::new(open(&layout, &digest, blob.len() as u64).unwrap());
            ingest
                .write(0, &[Bytes::from_static(&blob[..there])])
                .unwrap();
            let reader = reader(&ingest, &turns);
            (ingest, reader)
        };
        let (slow, mut waiting) = begin(b"slow", 2);
        let waiting = std::thread::spawn(move || {
            let mut all = Vec::new();
            waiting.read_to_end(&mut all).map(|_| all)
        });
        let (_whole, mut whole) = begin(b"whole", 5);
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut all = Vec::new();
            whole.read_to_end(&mut all).unwrap();
            tell.send(all).unwrap();
        });
        let other = told.recv_timeout(std::time::Duration::from_secs(20));
        assert_eq!(other.unwrap(), b"whole");
        slow.write(2, &[Bytes::from_static(b"ow")]).unwrap();
        assert_eq!(waiting.join().unwrap().unwrap(), b"slow");
    }

    #[test]
    fn giving_up_wakes_the_reader() {
        let (_dir, layout) = layout();
        let ingest = Arc::new(open(&layout, &Digest::of(b"x"), 10).unwrap());
        let mut reader = reader(&ingest, &Turns::new(1));
        let waiting = std::thread::spawn(move || reader.read(&mut [0; 4]));
        ingest.abandon();
        assert!(waiting.join().unwrap().is_err());
        ingest.discard();
        assert_eq!(std::fs::read_dir(layout.ingest()).unwrap().count(), 0);
    }
}
