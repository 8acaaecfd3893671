//! Reads that wait for missing parts, and the fetches of these parts.
//!
//! ```text
//!            park                          answer(ok)
//! a read ───────────► waiter ──► fetches ─────────────► the read is tried again
//!                        │           └────────────────► answer(error): the read fails
//!                        ├── deadline: the read fails
//!                        └── the reader is killed: the read is interrupted
//! ```
//!
//! A part is fetched once, however many reads wait for it. After a failed fetch, reads of the part fail at once for a
//! moment, because the kernel retries a page after a failed read-ahead.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant};

use orlop_lazy::PART;

use crate::journal::ENTRIES;

/// Maximum number of waiting reads of one layer, and of one container.
const LAYER_SHARE: usize = ENTRIES / 4;
const CONTAINER_SHARE: usize = ENTRIES / 8;
/// Duration for which reads fail at once after a failed fetch.
const GRUDGE: Duration = Duration::from_secs(1);
/// Maximum number of remembered ranges with a failed fetch.
const GRUDGES_MOST: usize = 256;
/// Maximum number of remembered signals for unknown reads.
const EARLY_MOST: usize = 256;

/// A read request of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    /// The request's number.
    pub(crate) unique: u64,
    /// The layer's node number.
    pub(crate) node: u64,
    pub(crate) offset: u64,
    pub(crate) size: u32,
    /// The reading thread.
    pub(crate) pid: u32,
}

/// A fetch to request from the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) id: u64,
    pub(crate) node: u64,
    pub(crate) bytes: Range<u64>,
    /// The thread of the first read.
    pub(crate) pid: u32,
}

/// A read that no longer waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Released {
    pub(crate) read: Read,
    /// The journal entry to erase after the answer.
    pub(crate) entry: usize,
}

/// The result of queueing a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parked {
    /// The read waits, with this journal entry.
    Waits {
        entry: usize,
        /// Whether the control thread has a new fetch to send or a new deadline.
        news: bool,
        /// Whether the reading thread received a signal.
        signalled: bool,
    },
    /// A fetch of its parts failed a moment ago.
    Failed,
    /// Too many reads wait.
    Full,
}

#[derive(Debug)]
struct Waiter {
    read: Read,
    /// The container of the reading thread.
    container: Option<String>,
    entry: usize,
    deadline: Instant,
    /// The number of fetches that the read waits for.
    pending: usize,
}

#[derive(Debug)]
struct Fetching {
    node: u64,
    bytes: Range<u64>,
    pid: u32,
    /// Request numbers. Those of released reads are ignored.
    waiters: Vec<u64>,
    asked: bool,
}

/// All waiting reads.
#[derive(Debug)]
pub(crate) struct Waiting {
    waiters: BTreeMap<u64, Waiter>,
    /// The number of waiting reads by layer, and by container.
    of_layers: BTreeMap<u64, usize>,
    of_containers: BTreeMap<String, usize>,
    deadlines: BTreeSet<(Instant, u64)>,
    fetches: BTreeMap<u64, Fetching>,
    /// The fetch of each part of a layer.
    parts: BTreeMap<(u64, u64), u64>,
    unasked: BTreeSet<u64>,
    next_fetch: u64,
    /// Journal entries that are free again, and the first one that was never used.
    free: Vec<usize>,
    unused: usize,
    grudges: VecDeque<(Instant, u64, Range<u64>)>,
    /// Reads whose thread received a signal that has not killed it yet.
    signalled: BTreeSet<u64>,
    early: VecDeque<u64>,
}

impl Waiting {
    /// Creates the empty state. The first `used` journal entries were in use; those in `taken` still are.
    pub(crate) fn new(used: usize, taken: &BTreeSet<usize>) -> Self {
        Self {
            waiters: BTreeMap::new(),
            of_layers: BTreeMap::new(),
            of_containers: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            fetches: BTreeMap::new(),
            parts: BTreeMap::new(),
            unasked: BTreeSet::new(),
            next_fetch: 1,
            free: (0..used).rev().filter(|it| !taken.contains(it)).collect(),
            unused: used,
            grudges: VecDeque::new(),
            signalled: BTreeSet::new(),
            early: VecDeque::new(),
        }
    }

    /// Queues a read for its missing whole parts. Layers and containers have a limited share of the entries, so that
    /// a stalled registry and its readers do not fail other reads.
    pub(crate) fn park(
        &mut self,
        read: Read,
        container: Option<String>,
        missing: &[Range<u64>],
        now: Instant,
        deadline: Instant,
    ) -> Parked {
        if self.holds_a_grudge(read.node, missing, now) {
            return Parked::Failed;
        }
        if self.has_its_share(&read, container.as_deref()) {
            return Parked::Full;
        }
        match self.free.pop().or_else(|| self.next_unused()) {
            Some(entry) => self.park_at(read, container, entry, missing, deadline),
            None => Parked::Full,
        }
    }

    fn has_its_share(&self, read: &Read, container: Option<&str>) -> bool {
        let of_container = container.and_then(|container| self.of_containers.get(container));
        self.count(read.node) >= LAYER_SHARE
            || of_container.is_some_and(|count| *count >= CONTAINER_SHARE)
    }

    fn next_unused(&mut self) -> Option<usize> {
        let entry = self.unused;
        self.unused = (entry + 1).min(ENTRIES);
        (entry < ENTRIES).then_some(entry)
    }

    /// Queues a read like `park`, with an existing journal entry.
    pub(crate) fn park_at(
        &mut self,
        read: Read,
        container: Option<String>,
        entry: usize,
        missing: &[Range<u64>],
        deadline: Instant,
    ) -> Parked {
        let mut news = false;
        let mut wanted = BTreeSet::new();
        for bytes in missing {
            news |= self.want(&read, bytes, &mut wanted);
        }
        for id in &wanted {
            if let Some(fetch) = self.fetches.get_mut(id) {
                fetch.waiters.push(read.unique);
            }
        }
        news |= self
            .deadlines
            .first()
            .is_none_or(|first| deadline < first.0);
        self.deadlines.insert((deadline, read.unique));
        *self.of_layers.entry(read.node).or_default() += 1;
        if let Some(container) = &container {
            *self.of_containers.entry(container.clone()).or_default() += 1;
        }
        let waiter = Waiter {
            read,
            container,
            entry,
            deadline,
            pending: wanted.len(),
        };
        self.waiters.insert(read.unique, waiter);
        let early = self.early.iter().position(|unique| *unique == read.unique);
        let signalled = early.and_then(|at| self.early.remove(at)).is_some();
        Parked::Waits {
            entry,
            news,
            signalled,
        }
    }

    /// Adds the fetches of these bytes to `wanted`; returns whether one of them is new.
    fn want(&mut self, read: &Read, bytes: &Range<u64>, wanted: &mut BTreeSet<u64>) -> bool {
        let mut fresh: Option<Range<u64>> = None;
        let mut news = false;
        let mut start = bytes.start;
        while start < bytes.end {
            let end = (start + PART).min(bytes.end);
            if let Some(id) = self.parts.get(&(read.node, start / PART)) {
                wanted.insert(*id);
                news |= self.begin(read, fresh.take(), wanted);
            } else {
                fresh = Some(fresh.map_or(start, |it| it.start)..end);
            }
            start = end;
        }
        news | self.begin(read, fresh, wanted)
    }

    fn begin(
        &mut self,
        read: &Read,
        bytes: Option<Range<u64>>,
        wanted: &mut BTreeSet<u64>,
    ) -> bool {
        let Some(bytes) = bytes else {
            return false;
        };
        let id = self.next_fetch;
        self.next_fetch += 1;
        for part in parts_of(&bytes) {
            self.parts.insert((read.node, part), id);
        }
        let fetch = Fetching {
            node: read.node,
            bytes,
            pid: read.pid,
            waiters: Vec::new(),
            asked: false,
        };
        self.fetches.insert(id, fetch);
        self.unasked.insert(id);
        wanted.insert(id);
        true
    }

    /// Returns the next fetch to request, if there is one.
    pub(crate) fn next_to_ask(&mut self) -> Option<Wanted> {
        let id = self.unasked.pop_first()?;
        let fetch = self.fetches.get_mut(&id)?;
        fetch.asked = true;
        Some(Wanted {
            id,
            node: fetch.node,
            bytes: fetch.bytes.clone(),
            pid: fetch.pid,
        })
    }

    /// Prepares a new daemon: all fetches that reads wait for are requested again.
    pub(crate) fn ask_again(&mut self) {
        let ids: Vec<u64> = self.fetches.keys().copied().collect();
        for id in ids {
            let Some(fetch) = self.fetches.get_mut(&id) else {
                continue;
            };
            fetch
                .waiters
                .retain(|unique| self.waiters.contains_key(unique));
            fetch.asked = false;
            if fetch.waiters.is_empty() {
                self.forget_fetch(id);
            } else {
                self.unasked.insert(id);
            }
        }
    }

    /// Handles the end of a fetch. Releases the reads that wait for no other fetch, or all of its reads if it failed.
    /// Also returns the fetch, for the failure report.
    pub(crate) fn answered(
        &mut self,
        id: u64,
        failed: bool,
        now: Instant,
    ) -> Option<(Wanted, Vec<Released>)> {
        if !self.fetches.get(&id).is_some_and(|fetch| fetch.asked) {
            return None;
        }
        let fetch = self.forget_fetch(id)?;
        if failed {
            self.bear_a_grudge(fetch.node, fetch.bytes.clone(), now);
        }
        let mut released = Vec::new();
        for unique in fetch.waiters {
            let Some(waiter) = self.waiters.get_mut(&unique) else {
                continue;
            };
            waiter.pending -= 1;
            if failed || waiter.pending == 0 {
                released.extend(self.release(unique));
            }
        }
        let wanted = Wanted {
            id,
            node: fetch.node,
            bytes: fetch.bytes,
            pid: fetch.pid,
        };
        Some((wanted, released))
    }

    /// Releases the reads whose timeout expired.
    pub(crate) fn late(&mut self, now: Instant) -> Vec<Released> {
        let mut late = Vec::new();
        while let Some((deadline, unique)) = self.deadlines.first().copied()
            && deadline <= now
        {
            match self.release(unique) {
                Some(released) => {
                    let read = &released.read;
                    let end = read.offset.saturating_add(u64::from(read.size));
                    self.bear_a_grudge(read.node, read.offset..end, now);
                    late.push(released);
                }
                None => {
                    self.deadlines.pop_first();
                }
            }
        }
        late
    }

    /// Releases the reads that wait for parts of a layer.
    pub(crate) fn of_layer(&mut self, node: u64) -> Vec<Released> {
        let theirs = self.waiters.values().filter(|it| it.read.node == node);
        let uniques: Vec<u64> = theirs.map(|waiter| waiter.read.unique).collect();
        let fetches = self.fetches.iter().filter(|(_, it)| it.node == node);
        let ids: Vec<u64> = fetches.map(|(id, _)| *id).collect();
        for id in ids {
            self.forget_fetch(id);
        }
        uniques
            .into_iter()
            .filter_map(|it| self.release(it))
            .collect()
    }

    /// Removes a waiting read.
    pub(crate) fn release(&mut self, unique: u64) -> Option<Released> {
        let waiter = self.waiters.remove(&unique)?;
        decrease(&mut self.of_layers, &waiter.read.node);
        if let Some(container) = &waiter.container {
            decrease(&mut self.of_containers, container);
        }
        self.deadlines.remove(&(waiter.deadline, unique));
        self.signalled.remove(&unique);
        Some(Released {
            read: waiter.read,
            entry: waiter.entry,
        })
    }

    /// Frees an entry of the journal.
    pub(crate) fn give_back(&mut self, entry: usize) {
        self.free.push(entry);
    }

    /// Returns the read that a signal belongs to. An unknown number is remembered, because its read may follow.
    pub(crate) fn signalled(&mut self, unique: u64) -> Option<Released> {
        let Some(waiter) = self.waiters.get(&unique) else {
            if self.early.len() >= EARLY_MOST {
                self.early.pop_front();
            }
            self.early.push_back(unique);
            return None;
        };
        Some(Released {
            read: waiter.read,
            entry: waiter.entry,
        })
    }

    /// Watches a read whose thread survived a signal, because another one may kill it.
    pub(crate) fn watch(&mut self, unique: u64) {
        if self.waiters.contains_key(&unique) {
            self.signalled.insert(unique);
        }
    }

    /// Returns the reads whose threads received a signal.
    pub(crate) fn watched(&self) -> Vec<Read> {
        let waiters = self.signalled.iter().filter_map(|it| self.waiters.get(it));
        waiters.map(|waiter| waiter.read).collect()
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Returns the number of reads that wait for parts of a layer.
    pub(crate) fn count(&self, node: u64) -> usize {
        self.of_layers.get(&node).copied().unwrap_or(0)
    }

    fn forget_fetch(&mut self, id: u64) -> Option<Fetching> {
        let fetch = self.fetches.remove(&id)?;
        for part in parts_of(&fetch.bytes) {
            self.parts.remove(&(fetch.node, part));
        }
        self.unasked.remove(&id);
        Some(fetch)
    }

    fn bear_a_grudge(&mut self, node: u64, bytes: Range<u64>, now: Instant) {
        if self.grudges.len() >= GRUDGES_MOST {
            self.grudges.pop_front();
        }
        self.grudges.push_back((now + GRUDGE, node, bytes));
    }

    fn holds_a_grudge(&mut self, node: u64, missing: &[Range<u64>], now: Instant) -> bool {
        while self.grudges.front().is_some_and(|it| it.0 <= now) {
            self.grudges.pop_front();
        }
        self.grudges.iter().any(|(until, of, bytes)| {
            let meets = |it: &Range<u64>| it.start < bytes.end && bytes.start < it.end;
            *until > now && *of == node && missing.iter().any(meets)
        })
    }
}

fn decrease<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

fn parts_of(bytes: &Range<u64>) -> Range<u64> {
    bytes.start / PART..bytes.end.div_ceil(PART)
}

#[cfg(test)]
mod tests;
