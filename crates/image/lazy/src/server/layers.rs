//! The layers of a session, and their list on disk.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use orlop_keeper_protocol::{Failure, FailureKind, LayerBook, LayerEntry, Message as _};
use orlop_lazy::Parts;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, openat, renameat, unlinkat};

use crate::failure::failure;
use crate::fuse::{About, ROOT};

/// Maximum number of layers.
const LAYERS_MOST: usize = 2048;
/// Maximum length of a file name.
const KEY_MOST: usize = 255;
/// Maximum length of a directory path.
const DIRECTORY_MOST: usize = 4095;
/// Maximum timeout in milliseconds.
const TIMEOUT_MOST: u64 = 24 * 3600 * 1000;

/// The node number of the first layer.
const FIRST_NODE: u64 = 16;

const BOOK: &str = "layers";
const BOOK_NEW: &str = "layers.new";
const BOOK_MOST: u64 = 64 << 20;

/// A layer.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) entry: LayerEntry,
    /// The open files, if they could be opened.
    pub(crate) parts: Option<Parts>,
}

impl Layer {
    pub(crate) fn about(&self) -> About {
        About {
            node: self.entry.node,
            size: self.entry.size,
        }
    }

    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_millis(self.entry.timeout_ms)
    }
}

/// All layers. A change is written to the list on disk before it takes effect.
#[derive(Debug)]
pub(crate) struct Layers {
    directory: OwnedFd,
    next_node: u64,
    by_node: BTreeMap<u64, Arc<Layer>>,
    by_key: BTreeMap<String, u64>,
    /// Whether the directory belongs to another server now.
    left: bool,
}

impl Layers {
    /// Creates an empty set of layers.
    pub(crate) fn new(directory: OwnedFd) -> std::io::Result<Self> {
        let layers = Self {
            directory,
            next_node: FIRST_NODE,
            by_node: BTreeMap::new(),
            by_key: BTreeMap::new(),
            left: false,
        };
        layers.write_down(layers.book())?;
        Ok(layers)
    }

    /// Loads the layers from the list. A layer whose files cannot be opened stays in the list; its reads fail.
    pub(crate) fn take_over(directory: OwnedFd) -> std::io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = File::from(openat(&directory, BOOK, flags, Mode::empty())?);
        let bytes = orlop_fs::read_whole(file, BOOK_MOST)?;
        let book = LayerBook::decode(&bytes).map_err(std::io::Error::other)?;
        let mut layers = Self {
            directory,
            next_node: book.next_node.max(FIRST_NODE),
            by_node: BTreeMap::new(),
            by_key: BTreeMap::new(),
            left: false,
        };
        for entry in book.layers {
            if !entry.removed {
                layers.by_key.insert(entry.key.clone(), entry.node);
            }
            let parts = open(&entry).inspect_err(|failure| eprintln!("{}", failure.message));
            let parts = parts.ok();
            let layer = Layer { entry, parts };
            layers.by_node.insert(layer.entry.node, Arc::new(layer));
        }
        Ok(layers)
    }

    /// Adds a layer, or reopens an existing one.
    pub(crate) fn add(
        &mut self,
        key: String,
        directory: PathBuf,
        size: u64,
        timeout_ms: u64,
    ) -> Result<(), Failure> {
        let invalid = |what: &str| Err(failure(FailureKind::Invalid, format!("adding: {what}")));
        let dots = key == "." || key == "..";
        if key.is_empty() || key.len() > KEY_MOST || key.contains(['/', '\0']) || dots {
            return invalid("the layer name is not a valid file name");
        }
        if !directory.is_absolute() || directory.as_os_str().len() > DIRECTORY_MOST {
            return invalid("the layer directory is not an absolute path or is too long");
        }
        if timeout_ms == 0 || timeout_ms > TIMEOUT_MOST {
            return invalid("the layer timeout must be greater than 0 and at most one day");
        }
        let known = self
            .by_key
            .get(&key)
            .and_then(|node| self.by_node.get(node));
        if known.is_some_and(|layer| layer.entry.size != size) {
            let what = format!("adding layer {key}: it already exists with a different size");
            return Err(failure(FailureKind::Exists, what));
        }
        if known.is_none() && self.by_node.len() >= LAYERS_MOST {
            return invalid("there are too many layers");
        }
        let node = known.map_or(self.next_node, |layer| layer.entry.node);
        let entry = LayerEntry {
            node,
            key,
            directory,
            size,
            timeout_ms,
            removed: false,
        };
        let parts = Some(open(&entry)?);
        let mut book = self.book();
        book.layers.retain(|other| other.node != node);
        book.layers.push(entry.clone());
        book.next_node = book.next_node.max(node + 1);
        let next_node = book.next_node;
        self.write(book)?;
        self.next_node = next_node;
        self.by_key.insert(entry.key.clone(), node);
        self.by_node.insert(node, Arc::new(Layer { entry, parts }));
        Ok(())
    }

    /// Removes a layer's name; returns the layer's node number.
    pub(crate) fn remove(&mut self, key: &str) -> Result<u64, Failure> {
        let known = self.by_key.get(key).and_then(|node| self.by_node.get(node));
        let Some(layer) = known.map(Arc::clone) else {
            let what = format!("removing layer {key}: it does not exist");
            return Err(failure(FailureKind::NotFound, what));
        };
        let node = layer.entry.node;
        let mut book = self.book();
        for entry in &mut book.layers {
            entry.removed |= entry.node == node;
        }
        self.write(book)?;
        let mut entry = layer.entry.clone();
        entry.removed = true;
        self.by_key.remove(key);
        // Reopened: current readers of the old files continue.
        let parts = open(&entry).ok();
        self.by_node.insert(node, Arc::new(Layer { entry, parts }));
        Ok(node)
    }

    /// Removes all names, and releases the directory to another server. Returns all node numbers.
    pub(crate) fn leave(&mut self) -> Vec<u64> {
        self.left = true;
        self.by_key.clear();
        for layer in self.by_node.values_mut() {
            let mut entry = layer.entry.clone();
            entry.removed = true;
            let parts = open(&entry).ok();
            *layer = Arc::new(Layer { entry, parts });
        }
        // The next server retries the lock for a while.
        let _ = flock(&self.directory, FlockOperation::Unlock);
        self.by_node.keys().copied().collect()
    }

    /// Handles that the kernel forgot a layer: a layer without a name is dropped.
    pub(crate) fn forgotten(&mut self, node: u64) {
        if self.is_removed(node) {
            self.by_node.remove(&node);
            // A successor can safely still have the layer.
            let _ = self.write_down(self.book());
        }
    }

    pub(crate) fn is_removed(&self, node: u64) -> bool {
        self.by_node.get(&node).is_some_and(|it| it.entry.removed)
    }

    pub(crate) fn by_node(&self, node: u64) -> Option<Arc<Layer>> {
        self.by_node.get(&node).map(Arc::clone)
    }

    pub(crate) fn by_key(&self, key: &str) -> Option<Arc<Layer>> {
        self.by_key.get(key).and_then(|node| self.by_node(*node))
    }

    /// Returns the attributes of a file or of the directory.
    pub(crate) fn about(&self, node: u64) -> Option<About> {
        match node {
            ROOT => Some(About {
                node: ROOT,
                size: 0,
            }),
            _ => self.by_node.get(&node).map(|layer| layer.about()),
        }
    }

    /// Returns the named layers with a higher node number.
    pub(crate) fn named_after(&self, node: u64) -> impl Iterator<Item = &Arc<Layer>> {
        let behind = self.by_node.range(node.saturating_add(1)..);
        behind
            .map(|(_, layer)| layer)
            .filter(|it| !it.entry.removed)
    }

    fn book(&self) -> LayerBook {
        LayerBook {
            next_node: self.next_node,
            layers: self.by_node.values().map(|it| it.entry.clone()).collect(),
        }
    }

    fn write(&self, book: LayerBook) -> Result<(), Failure> {
        let written = self.write_down(book);
        written.map_err(|error| {
            failure(
                FailureKind::Failed,
                format!("writing the list of layers: {error}"),
            )
        })
    }

    /// Writes the list. It must survive this process, not a crash of the machine, so nothing is synced.
    fn write_down(&self, book: LayerBook) -> std::io::Result<()> {
        if self.left {
            return Ok(());
        }
        let mut bytes = Vec::new();
        book.encode(&mut bytes);
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mode = Mode::from_bits_truncate(0o600);
        let mut file = File::from(openat(&self.directory, BOOK_NEW, flags, mode)?);
        let written = file
            .write_all(&bytes)
            .and_then(|()| Ok(renameat(&self.directory, BOOK_NEW, &self.directory, BOOK)?));
        if written.is_err() {
            // On a full disk, removes the incomplete list.
            let _ = unlinkat(&self.directory, BOOK_NEW, AtFlags::empty());
        }
        written
    }
}

fn open(entry: &LayerEntry) -> Result<Parts, Failure> {
    let whom = format!(
        "opening layer {} in {}",
        entry.key,
        entry.directory.display()
    );
    let parts = Parts::open_to_read(&entry.directory)
        .map_err(|error| failure(FailureKind::Failed, format!("{whom}: {error}")))?;
    if parts.size() != entry.size {
        let what = format!("{whom}: it has {} bytes, not {}", parts.size(), entry.size);
        return Err(failure(FailureKind::Invalid, what));
    }
    Ok(parts)
}
