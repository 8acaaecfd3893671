//! Reads that wait for parts that are not here, and the fetches that they wait for.
//!
//! ```text
//!            park                          answer(ok)
//! a read ───────────► waiter ──► fetches ─────────────► the read is tried again
//!                        │           └────────────────► answer(error): the read fails
//!                        ├── deadline: the read fails
//!                        └── who reads is killed: it is interrupted
//! ```
//!
//! A part is asked for once, however many wait for it. Of a part whose fetch failed, reads fail at once
//! for a moment: the kernel tries a page again whose read-ahead has failed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant};

use orlop_lazy::PART;

use crate::journal::ENTRIES;

/// How many reads of one layer may wait, and how many of one container.
const LAYER_SHARE: usize = ENTRIES / 4;
const CONTAINER_SHARE: usize = ENTRIES / 8;
/// For how long reads of what could not be fetched fail at once.
const GRUDGE: Duration = Duration::from_secs(1);
/// How many such places are remembered.
const GRUDGES_MOST: usize = 256;
/// How many signals are remembered whose reads are not known yet.
const EARLY_MOST: usize = 256;

/// A read, as the kernel asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    /// The request's number.
    pub(crate) unique: u64,
    /// The layer's number.
    pub(crate) node: u64,
    pub(crate) offset: u64,
    pub(crate) size: u32,
    /// The thread that reads.
    pub(crate) pid: u32,
}

/// What is asked of the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) id: u64,
    pub(crate) node: u64,
    pub(crate) bytes: Range<u64>,
    /// The thread that read first.
    pub(crate) pid: u32,
}

/// A read that waits no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Released {
    pub(crate) read: Read,
    /// Where it is noted, to be erased when it is answered.
    pub(crate) entry: usize,
}

/// What became of a read that was to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parked {
    /// It waits, and is to be noted here.
    Waits {
        entry: usize,
        /// Whether there is something new to ask, or to wake up for.
        news: bool,
        /// Whether a signal has come for who reads.
        signalled: bool,
    },
    /// What it wants could not be fetched a moment ago.
    Failed,
    /// Too many wait.
    Full,
}

#[derive(Debug)]
struct Waiter {
    read: Read,
    /// The container that reads.
    container: Option<String>,
    entry: usize,
    deadline: Instant,
    /// How many fetches it waits for.
    pending: usize,
}

#[derive(Debug)]
struct Fetching {
    node: u64,
    bytes: Range<u64>,
    pid: u32,
    /// Numbers of requests. Those that are gone are not found.
    waiters: Vec<u64>,
    asked: bool,
}

/// All that wait.
#[derive(Debug)]
pub(crate) struct Waiting {
    waiters: BTreeMap<u64, Waiter>,
    /// How many reads of a layer wait, and how many of a container.
    of_layers: BTreeMap<u64, usize>,
    of_containers: BTreeMap<String, usize>,
    deadlines: BTreeSet<(Instant, u64)>,
    fetches: BTreeMap<u64, Fetching>,
    /// Which fetch a part of a layer comes with.
    parts: BTreeMap<(u64, u64), u64>,
    unasked: BTreeSet<u64>,
    next_fetch: u64,
    /// Entries of the journal that were used, and the first that never was.
    free: Vec<usize>,
    unused: usize,
    grudges: VecDeque<(Instant, u64, Range<u64>)>,
    /// Reads for whose thread a signal came that did not kill it yet.
    signalled: BTreeSet<u64>,
    early: VecDeque<u64>,
}

impl Waiting {
    /// Nobody waits. Of the journal's entries the first ones were `used`, and some are `taken`.
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

    /// Has a read wait for what it misses, which is whole parts. A layer and a container have a share of the places, so
    /// that a registry that stalls and who reads of it fail no other reads.
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

    /// As `park`, of a read that is noted already.
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

    /// Adds the fetches that bring these bytes to `wanted`; whether one is new.
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

    /// What is to be asked and was not, as far as that goes now.
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

    /// A daemon has come that was asked nothing: all that somebody waits for is to be asked again.
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

    /// A fetch has ended: those that wait for no other are released, or all where it failed. With where
    /// it was, for who tells of it.
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

    /// Those that have waited too long.
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

    /// Those that wait for parts of a layer.
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

    /// Takes out one that waits.
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

    /// An entry of the journal is free again.
    pub(crate) fn give_back(&mut self, entry: usize) {
        self.free.push(entry);
    }

    /// The read that a signal has come for, and where it is noted. One that is not known may be soon.
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

    /// The signal did not kill who reads; another may.
    pub(crate) fn watch(&mut self, unique: u64) {
        if self.waiters.contains_key(&unique) {
            self.signalled.insert(unique);
        }
    }

    /// Those for whom a signal came.
    pub(crate) fn watched(&self) -> Vec<Read> {
        let waiters = self.signalled.iter().filter_map(|it| self.waiters.get(it));
        waiters.map(|waiter| waiter.read).collect()
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// How many wait for parts of a layer.
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
