//! A layer that is only partly downloaded.
//!
//! ```text
//! layers/HEX/image, present   its image, and which parts of it are on disk (`orlop_lazy::Parts`)
//! layers/HEX/toc              the chunks that the parts consist of (`orlop_toc::Index`)
//! ```

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use orlop_lazy::Parts;
use orlop_toc::Index;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::fetch::{Judge, Part, from_any, on_a_thread};
use super::plan::{Plan, Stretch, chunks, parts};
use crate::blocking::answering;
use crate::registry::{Attempt, Remote};
use crate::store::TOC;
use crate::turns::Turns;
use crate::{Digest, Error, Result};

/// Maximum size of a table of contents.
const LARGEST_TOC: u64 = 1 << 30;

/// Time after the last use that a layer's table of contents stays in memory.
const IDLE: Duration = Duration::from_secs(10);

/// Target size of one request. A single chunk may be larger.
const REQUEST: u64 = 4 << 20;
/// Unneeded bytes up to this many are fetched to avoid another request.
const GAP: u64 = 32 << 10;

/// A lazy layer.
pub(crate) struct Layer {
    key: Digest,
    dir: PathBuf,
    /// Digest and size of its blob.
    blob: (Digest, u64),
    parts: Parts,
    /// Read from disk on demand, and cached for a short time.
    contents: Mutex<Cache>,
    claims: Mutex<Claims>,
    /// Notified when a claim is released.
    changed: Notify,
}

/// The table of contents of a layer, and the positions of its chunks.
pub(super) struct Contents {
    pub(super) index: Index<Vec<u8>>,
    pub(super) plan: Plan,
}

#[derive(Default)]
struct Cache {
    contents: Option<Arc<Contents>>,
    used: Option<Instant>,
    /// Whether a task watches the cache to drop it when idle.
    watched: bool,
}

/// The chunks that are being fetched.
#[derive(Default)]
struct Claims {
    in_flight: HashSet<u32>,
    /// One bit per chunk written since the layer was opened, even if its part is not complete yet.
    written: Vec<u64>,
}

impl Claims {
    fn has(&self, chunk: u32) -> bool {
        let word = self.written.get(chunk as usize / 64);
        word.is_some_and(|word| word & (1 << (chunk % 64)) != 0)
    }

    fn set(&mut self, chunk: u32) {
        if let Some(word) = self.written.get_mut(chunk as usize / 64) {
            *word |= 1 << (chunk % 64);
        }
    }
}

/// Reads the table of contents from a directory. Blocks.
pub(super) fn read(dir: &Path) -> Result<Vec<u8>> {
    let path = dir.join(TOC);
    orlop_fs::read_file(&path, LARGEST_TOC).map_err(|error| Error::at("reading", &path, error))
}

/// Chunks that are adjacent in the blob.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Run {
    range: Range<u64>,
    chunks: Vec<u32>,
}

impl Layer {
    /// Opens the layer in a directory. Blocks.
    pub(crate) fn open(key: Digest, dir: &Path, blob: (Digest, u64)) -> Result<Self> {
        let parts = Parts::open(dir).map_err(|error| Error::at("opening", dir, error))?;
        let layer = Self {
            key,
            dir: dir.to_owned(),
            blob,
            parts,
            contents: Mutex::default(),
            claims: Mutex::default(),
            changed: Notify::new(),
        };
        let contents = layer.contents()?;
        if layer.parts.size() < contents.plan.room().end {
            return Err(layer.damaged());
        }
        layer.claims.lock().written = vec![0; (contents.index.chunks() as usize).div_ceil(64)];
        layer.let_go();
        Ok(layer)
    }

    pub(crate) fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Returns the layer's contents, from the cache or from disk. Blocks.
    pub(super) fn contents(&self) -> Result<Arc<Contents>> {
        let mut cache = self.contents.lock();
        cache.used = Some(Instant::now());
        if let Some(contents) = &cache.contents {
            return Ok(Arc::clone(contents));
        }
        let damaged = |_| self.damaged();
        let index = Index::open(read(&self.dir)?).map_err(damaged)?;
        index.check().map_err(damaged)?;
        let plan = Plan::of(&index).map_err(damaged)?;
        let plan = plan.map_err(|_| self.damaged())?;
        let contents = Arc::new(Contents { index, plan });
        cache.contents = Some(Arc::clone(&contents));
        Ok(contents)
    }

    /// Returns a future that drops the cached contents once they are idle.
    pub(super) fn rest_when_idle(self: &Arc<Self>) -> Option<impl Future<Output = ()> + use<>> {
        let watched = std::mem::replace(&mut self.contents.lock().watched, true);
        let layer = Arc::downgrade(self);
        let watch = async move {
            loop {
                tokio::time::sleep(IDLE).await;
                let layer = layer.upgrade();
                if layer.is_none_or(|layer| layer.rests()) {
                    return;
                }
            }
        };
        (!watched).then_some(watch)
    }

    /// Drops the cached contents. The next use reads them again.
    pub(super) fn let_go(&self) {
        self.contents.lock().contents = None;
    }

    fn rests(&self) -> bool {
        let mut cache = self.contents.lock();
        let is_idle = cache.used.is_none_or(|used| used.elapsed() >= IDLE);
        if is_idle {
            *cache = Cache::default();
        }
        is_idle
    }

    /// Returns the missing parts of a byte range. Blocks.
    pub(super) fn missing(&self, bytes: Range<u64>) -> Result<Vec<Range<u64>>> {
        let missing = self.parts.missing(bytes);
        missing.map_err(|error| {
            Error::io(
                format!("reading the map of fetched parts of layer {}", self.key),
                error,
            )
        })
    }

    /// Returns the number of bytes that the layer uses on disk. Blocks.
    pub(super) fn taken(&self) -> u64 {
        let about = self.parts.image().metadata();
        about.map_or(0, |about| about.blocks() * 512)
    }

    /// Returns the range of the image that is prioritized for download.
    pub(super) fn prioritized(&self) -> Result<Range<u64>> {
        let Contents { index, plan } = &*self.contents()?;
        let end = plan.reaches(index, index.prioritized());
        let end = end.map_err(|_| self.damaged())?;
        Ok(plan.room().start..end)
    }

    /// Downloads a range of the image. Returns the number of bytes fetched.
    pub(super) async fn fetch(
        self: &Arc<Self>,
        remotes: &[Arc<Remote>],
        wanted: Range<u64>,
    ) -> Result<u64> {
        let mut fetched = 0;
        let mut in_vain = false;
        loop {
            let changed = self.changed.notified();
            let (layer, range) = (Arc::clone(self), wanted.clone());
            match answering(move || layer.claim(&range)).await? {
                Claimed::Nothing => return Ok(fetched),
                Claimed::Others => changed.await,
                // All chunks were written, but the range is still missing.
                Claimed::Runs(claim) if claim.runs.is_empty() && in_vain => {
                    return Err(self.damaged());
                }
                Claimed::Runs(claim) => {
                    in_vain = claim.runs.is_empty();
                    for run in &claim.runs {
                        fetched += run.range.end - run.range.start;
                        self.fetch_run(remotes, run, &claim.stretches).await?;
                    }
                    let layer = Arc::clone(self);
                    answering(move || layer.mark(&claim.stretches)).await?;
                }
            }
        }
    }

    /// Claims the missing chunks that no other task fetches. Blocks.
    fn claim(self: &Arc<Self>, wanted: &Range<u64>) -> Result<Claimed> {
        let missing = self.missing(wanted.clone())?;
        if missing.is_empty() {
            return Ok(Claimed::Nothing);
        }
        let harmed = |_| self.damaged();
        let Contents { index, plan } = &*self.contents()?;
        let mut stretches = Vec::new();
        for range in &missing {
            let widened = plan.widened(index, range).map_err(harmed)?;
            stretches.extend(plan.stretches(index, &widened).map_err(harmed)?);
        }
        stretches.sort_unstable_by_key(|stretch| stretch.image.start);
        stretches.dedup();
        let needed = chunks(&stretches);
        let mut claims = self.claims.lock();
        let unwritten = needed.iter().filter(|chunk| !claims.has(**chunk)).count();
        let free = |chunk: &u32| !claims.has(*chunk) && !claims.in_flight.contains(chunk);
        let free: Vec<u32> = needed.into_iter().filter(free).collect();
        if free.is_empty() && unwritten > 0 {
            return Ok(Claimed::Others);
        }
        claims.in_flight.extend(&free);
        drop(claims);
        let given_back = GivenBack {
            layer: Arc::clone(self),
            chunks: free.clone(),
        };
        Ok(Claimed::Runs(Claim {
            runs: self.runs(index, &free)?,
            stretches: Arc::new(stretches),
            _given_back: given_back,
        }))
    }

    /// Groups chunks into requests.
    fn runs(&self, index: &Index<Vec<u8>>, chunks: &[u32]) -> Result<Vec<Run>> {
        let mut ranges = Vec::with_capacity(chunks.len());
        for number in chunks {
            let chunk = index.chunk(*number).map_err(|_| self.damaged())?;
            let chunk = chunk.ok_or_else(|| self.damaged())?;
            let range = chunk.range();
            ranges.push((range.start, range.end, *number));
        }
        ranges.sort_unstable();
        let mut runs: Vec<Run> = Vec::new();
        for (start, end, number) in ranges {
            match runs.last_mut() {
                Some(run)
                    if start <= run.range.end.saturating_add(GAP)
                        && end.max(run.range.end) - run.range.start <= REQUEST =>
                {
                    run.range.end = run.range.end.max(end);
                    run.chunks.push(number);
                }
                _ => runs.push(Run {
                    range: start..end,
                    chunks: vec![number],
                }),
            }
        }
        Ok(runs)
    }

    async fn fetch_run(
        self: &Arc<Self>,
        remotes: &[Arc<Remote>],
        run: &Run,
        stretches: &Arc<Vec<Stretch>>,
    ) -> Result<()> {
        let part = Part {
            what: format!("a part of layer {}", self.blob.0),
            blob: self.blob.0,
            size: self.blob.1,
            range: run.range.clone(),
        };
        let write = Write {
            layer: self,
            run,
            stretches,
        };
        from_any(remotes, &part, &write).await
    }

    /// Verifies chunks and writes them to the image. Blocks.
    fn write(&self, host: &str, run: &Run, bytes: &[u8], stretches: &[Stretch]) -> Result<()> {
        let contents = self.contents()?;
        let mut of_chunks: HashMap<u32, Vec<(&Stretch, u64)>> = HashMap::new();
        for stretch in stretches {
            if let Some((chunk, at)) = stretch.from {
                of_chunks.entry(chunk).or_default().push((stretch, at));
            }
        }
        for number in &run.chunks {
            let chunk = contents.index.chunk(*number).map_err(|_| self.damaged())?;
            let chunk = chunk.ok_or_else(|| self.damaged())?;
            let at = |offset: u64| usize::try_from(offset - run.range.start).ok();
            let (start, end) = (at(chunk.range().start), at(chunk.range().end));
            let fetched = start
                .zip(end)
                .and_then(|(start, end)| bytes.get(start..end));
            let fetched = fetched.ok_or_else(|| self.damaged())?;
            let content = chunk.open(fetched).map_err(|error| Error::Protocol {
                what: format!("a part of layer {}", self.blob.0),
                host: host.to_owned(),
                reason: orlop_text::with_causes(&error),
            })?;
            for (stretch, at) in of_chunks.remove(number).unwrap_or_default() {
                let length = stretch.image.end - stretch.image.start;
                let range = usize::try_from(at).ok().zip(usize::try_from(length).ok());
                let piece = range
                    .and_then(|(at, length)| content.get(at..at.checked_add(length)?))
                    .ok_or_else(|| self.damaged())?;
                let written = self.parts.write(stretch.image.start, piece);
                written.map_err(|error| Error::io("writing a part of a layer", error))?;
            }
            self.claims.lock().set(*number);
        }
        Ok(())
    }

    /// Marks the parts that are complete now. Blocks.
    fn mark(&self, stretches: &[Stretch]) -> Result<()> {
        let filled: Vec<Range<u64>> = {
            let claims = self.claims.lock();
            let is_here = |stretch: &&Stretch| stretch.from.is_none_or(|(it, _)| claims.has(it));
            let here = stretches.iter().filter(is_here);
            here.map(|stretch| stretch.image.start..stretch.end)
                .collect()
        };
        let room = self.contents()?.plan.room();
        // The range of files starts at the first file and ends at the last one.
        for range in parts(filled, &room) {
            let marked = self.parts.mark(range);
            marked.map_err(|error| Error::io("marking a part of a layer as fetched", error))?;
        }
        Ok(())
    }

    fn damaged(&self) -> Error {
        Error::Damaged {
            layer: self.key,
            reason: "its table of contents has changed".to_owned(),
        }
    }
}

enum Claimed {
    /// Nothing is missing.
    Nothing,
    /// Other tasks fetch the missing chunks.
    Others,
    Runs(Claim),
}

struct Claim {
    runs: Vec<Run>,
    /// All stretches that were requested, including those that other tasks fetch.
    stretches: Arc<Vec<Stretch>>,
    _given_back: GivenBack,
}

/// Claimed chunks. Dropping this releases them and notifies the waiting tasks.
struct GivenBack {
    layer: Arc<Layer>,
    chunks: Vec<u32>,
}

impl Drop for GivenBack {
    fn drop(&mut self) {
        let mut claims = self.layer.claims.lock();
        for chunk in &self.chunks {
            claims.in_flight.remove(chunk);
        }
        drop(claims);
        self.layer.changed.notify_waiters();
    }
}

/// Number of chunks decompressed at the same time. Each uses its content and its window, at most 16 MiB each.
const AT_ONCE: usize = 2;
static DECOMPRESSING: LazyLock<Arc<Turns>> = LazyLock::new(|| Turns::new(AT_ONCE));

/// Writer of the chunks of a run, as they arrive.
struct Write<'a> {
    layer: &'a Arc<Layer>,
    run: &'a Run,
    stretches: &'a Arc<Vec<Stretch>>,
}

impl Judge for Write<'_> {
    type Verdict = ();

    async fn judge(&self, host: &str, bytes: Vec<u8>) -> Result<(), Attempt> {
        let (layer, run) = (Arc::clone(self.layer), self.run.clone());
        let (stretches, host) = (Arc::clone(self.stretches), host.to_owned());
        on_a_thread(move || {
            let _turn = DECOMPRESSING.take();
            layer.write(&host, &run, &bytes, &stretches)
        })
        .await
    }
}
