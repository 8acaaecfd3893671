//! Memory for unpacking: the buffers and decompression windows of all layers, from one budget for the node.
//!
//! A layer claims its memory when its first bytes show the size of its window. If the layer is still being
//! downloaded, the claim is *early*, because the registry decides how long it lasts:
//!
//! ```text
//! first bytes ──downloading──► early claim fits? ──yes──► unpack ──download is slow, others queue──┐
//!      │                           └─no─► wait for the whole blob ◄──────start again───────────────┘
//!      └──────whole or a file──────────────────► queue ──► unpack
//! ```
//!
//! Early claims leave a reserve, so that complete layers can always proceed. So a registry that sends slowly delays
//! only its own layers.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::pipe;

/// The default of `images.unpack_memory`.
pub(crate) const DEFAULT: u64 = 40 << 20;
/// Memory that early claims leave for complete layers.
const RESERVE: u64 = 8 << 20;
/// Memory for a decompressor's state and input buffer, in addition to its window.
const DECODER: u64 = 384 << 10;
/// Other layers cannot displace an early claim within this time.
const UNDISTURBED: Duration = Duration::from_secs(1);
/// Interval at which a waiting layer checks whether its download is complete or cancelled.
const POLL: Duration = Duration::from_millis(50);

/// The budget of the node.
pub(crate) static NODE: MemoryBudget = MemoryBudget::new(DEFAULT);

/// Memory that all layers share.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug)]
struct State {
    total: u64,
    used: u64,
    early: u64,
    registries: BTreeMap<String, u64>,
    pulls: BTreeMap<u64, u64>,
    queue: BTreeMap<u64, (Owner, u64)>,
    next_ticket: u64,
}

/// The registry and the pull that a layer's memory is counted against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Empty for archives from clients.
    pub(crate) registry: String,
    pub(crate) pull: u64,
}

/// The download that a layer is unpacked from.
pub(crate) trait Download: Send + Sync {
    /// Returns whether all bytes are on disk. Fails if the download was abandoned.
    fn is_complete(&self) -> io::Result<bool>;
    /// Lets other layers unpack until the next read.
    fn pause(&self);
}

/// A layer that can never be unpacked within the budget.
#[derive(Debug, thiserror::Error)]
#[error(
    "its decompression window of {window} bytes needs {needed} bytes of memory; the limit is {limit} bytes (images.unpack_memory)"
)]
struct WindowTooLarge {
    window: u64,
    needed: u64,
    limit: u64,
}

/// A layer must give up its memory. It starts again when its download is complete.
#[derive(Debug, thiserror::Error)]
#[error(
    "unpacking restarts when the download of the layer is complete, because other layers need the \
     memory"
)]
struct Displaced;

impl MemoryBudget {
    const fn new(total: u64) -> Self {
        Self {
            state: Mutex::new(State {
                total,
                used: 0,
                early: 0,
                registries: BTreeMap::new(),
                pulls: BTreeMap::new(),
                queue: BTreeMap::new(),
                next_ticket: 0,
            }),
            freed: Condvar::new(),
        }
    }

    /// Changes the budget. Existing claims stay, even if they exceed it.
    pub(crate) fn set_total(&self, total: u64) {
        self.state.lock().total = total;
        self.freed.notify_all();
    }

    fn check(&self, window: u64) -> io::Result<u64> {
        let (limit, needed) = (self.state.lock().total, needed(window));
        if needed > limit {
            return Err(io::Error::other(WindowTooLarge {
                window,
                needed,
                limit,
            }));
        }
        Ok(needed)
    }

    fn claim_early(&'static self, owner: &Owner, bytes: u64) -> Option<Claim> {
        let mut state = self.state.lock();
        let is_free = state.queue.is_empty()
            && state.is_within_shares(owner, bytes)
            && state.used + bytes <= state.total
            && state.early + bytes <= state.total.saturating_sub(RESERVE);
        is_free.then(|| {
            state.early += bytes;
            self.grant(&mut state, owner, bytes, true)
        })
    }

    /// Waits until the layer is first in the queue and its memory is free. An error of `is_wanted` ends the wait.
    fn claim(
        &'static self,
        owner: &Owner,
        window: u64,
        is_wanted: impl Fn() -> io::Result<()>,
    ) -> io::Result<Claim> {
        let queued = Queued::enter(self, owner, needed(window));
        loop {
            let bytes = self.check(window)?;
            is_wanted()?;
            let mut state = self.state.lock();
            if state.first() == Some(queued.ticket) && state.used + bytes <= state.total {
                return Ok(self.grant(&mut state, owner, bytes, false));
            }
            self.freed.wait_for(&mut state, POLL);
        }
    }

    fn grant(&'static self, state: &mut State, owner: &Owner, bytes: u64, is_early: bool) -> Claim {
        state.used += bytes;
        *state.registries.entry(owner.registry.clone()).or_default() += bytes;
        *state.pulls.entry(owner.pull).or_default() += bytes;
        Claim {
            budget: self,
            owner: owner.clone(),
            bytes,
            is_early,
        }
    }

    fn is_short(&self) -> bool {
        !self.state.lock().queue.is_empty()
    }
}

impl State {
    /// Returns whether the owner stays within its shares: two thirds of the budget per registry, half of it per pull.
    /// A single layer may exceed them.
    fn is_within_shares(&self, owner: &Owner, bytes: u64) -> bool {
        let is_within = |used: Option<&u64>, share: u64| {
            used.is_none_or(|used| *used == 0 || used + bytes <= share)
        };
        is_within(self.registries.get(&owner.registry), self.total / 3 * 2)
            && is_within(self.pulls.get(&owner.pull), self.total / 2)
    }

    /// Returns the next layer of the queue: the registry, then the pull, with the least memory comes first.
    fn first(&self) -> Option<u64> {
        let may_go =
            |(_, (owner, bytes)): &(&u64, &(Owner, u64))| self.is_within_shares(owner, *bytes);
        let order = |(ticket, (owner, _)): &(&u64, &(Owner, u64))| {
            let registry = self.registries.get(&owner.registry).copied();
            let pull = self.pulls.get(&owner.pull).copied();
            (registry.unwrap_or(0), pull.unwrap_or(0), **ticket)
        };
        let first = self.queue.iter().filter(may_go).min_by_key(order);
        first.map(|(ticket, _)| *ticket)
    }
}

/// An entry in the queue.
struct Queued {
    budget: &'static MemoryBudget,
    ticket: u64,
}

impl Queued {
    fn enter(budget: &'static MemoryBudget, owner: &Owner, bytes: u64) -> Self {
        let mut state = budget.state.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.queue.insert(ticket, (owner.clone(), bytes));
        Self { budget, ticket }
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.budget.state.lock().queue.remove(&self.ticket);
        self.budget.freed.notify_all();
    }
}

/// Memory that a layer holds until it is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    budget: &'static MemoryBudget,
    owner: Owner,
    bytes: u64,
    is_early: bool,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut guard = self.budget.state.lock();
        let state = &mut *guard;
        state.used -= self.bytes;
        if self.is_early {
            state.early -= self.bytes;
        }
        release(&mut state.registries, &self.owner.registry, self.bytes);
        release(&mut state.pulls, &self.owner.pull, self.bytes);
        drop(guard);
        self.budget.freed.notify_all();
    }
}

fn release<K: Ord>(users: &mut BTreeMap<K, u64>, user: &K, bytes: u64) {
    if let Some(used) = users.get_mut(user) {
        *used -= bytes;
        if *used == 0 {
            users.remove(user);
        }
    }
}

/// Returns the memory that a layer with this window needs.
fn needed(window: u64) -> u64 {
    let buffers = pipe::MEMORY + DECODER;
    window.saturating_add(buffers)
}

/// The memory account of one layer.
pub(crate) struct LayerMemory {
    budget: &'static MemoryBudget,
    owner: Owner,
    download: Option<Arc<dyn Download>>,
    attempt: Mutex<Attempt>,
}

#[derive(Debug, Default)]
struct Attempt {
    early_since: Option<Instant>,
    is_displaced: bool,
    /// The largest window that an earlier attempt needed.
    window: u64,
}

impl LayerMemory {
    /// Creates the account of a layer that is downloaded, or read from a file.
    pub(crate) fn new(owner: Owner, download: Option<Arc<dyn Download>>) -> Arc<Self> {
        Self::of(&NODE, owner, download)
    }

    /// Creates the account of an archive from a client.
    pub(crate) fn of_client() -> Arc<Self> {
        let owner = Owner {
            registry: String::new(),
            pull: 0,
        };
        Self::new(owner, None)
    }

    fn of(
        budget: &'static MemoryBudget,
        owner: Owner,
        download: Option<Arc<dyn Download>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            budget,
            owner,
            download,
            attempt: Mutex::default(),
        })
    }

    /// Claims memory for a window. Blocks until enough is free.
    pub(super) fn claim(&self, window: u64) -> io::Result<Claim> {
        let window = window.max(self.attempt.lock().window);
        let bytes = self.budget.check(window)?;
        let is_complete = || {
            let download = self.download.as_ref();
            download.map_or(Ok(true), |download| download.is_complete())
        };
        let mut has_paused = false;
        while !is_complete()? {
            if let Some(claim) = self.budget.claim_early(&self.owner, bytes) {
                self.attempt.lock().early_since = Some(Instant::now());
                return Ok(claim);
            }
            self.pause(&mut has_paused);
            std::thread::sleep(POLL);
        }
        self.pause(&mut has_paused);
        self.budget
            .claim(&self.owner, window, || is_complete().map(drop))
    }

    fn pause(&self, has_paused: &mut bool) {
        if let (Some(download), false) = (&self.download, *has_paused) {
            download.pause();
            *has_paused = true;
        }
    }

    /// Replaces the claim by one for a larger window. A layer that is being downloaded starts again instead, so that
    /// it holds no buffers while it waits.
    pub(super) fn enlarge(&self, claim: &mut Option<Claim>, window: u64) -> io::Result<()> {
        if claim
            .as_ref()
            .is_some_and(|claim| needed(window) <= claim.bytes)
        {
            return Ok(());
        }
        let is_first = claim.take().is_none();
        if !is_first && self.download.is_some() {
            self.budget.check(window)?;
            let mut attempt = self.attempt.lock();
            attempt.window = window;
            attempt.is_displaced = true;
            return Err(io::Error::other(Displaced));
        }
        *claim = Some(self.claim(window)?);
        Ok(())
    }

    /// Fails if the layer must release its memory because other layers queue for it. A reader calls this when it has
    /// no more bytes to read.
    pub(crate) fn keep(&self) -> io::Result<()> {
        let mut attempt = self.attempt.lock();
        let is_old = |since: Instant| since.elapsed() >= UNDISTURBED;
        if !attempt.is_displaced && attempt.early_since.is_some_and(is_old) {
            attempt.is_displaced = self.budget.is_short();
        }
        if attempt.is_displaced {
            return Err(io::Error::other(Displaced));
        }
        Ok(())
    }

    pub(crate) fn is_displaced(&self) -> bool {
        self.attempt.lock().is_displaced
    }

    /// Waits for the complete download of a layer that released its memory, so that it can be unpacked again. Returns
    /// false if the layer did not release its memory, or if the download was abandoned.
    pub(crate) fn is_to_start_again(&self) -> bool {
        {
            let mut attempt = self.attempt.lock();
            if !std::mem::take(&mut attempt.is_displaced) {
                return false;
            }
            attempt.early_since = None;
        }
        let Some(download) = &self.download else {
            return false;
        };
        download.pause();
        loop {
            match download.is_complete() {
                Ok(true) => return true,
                Ok(false) => std::thread::sleep(POLL),
                Err(_) => return false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;

    use super::*;

    const MIB: u64 = 1 << 20;

    #[derive(Default)]
    struct Coming(AtomicBool);

    impl Download for Coming {
        fn is_complete(&self) -> io::Result<bool> {
            Ok(self.0.load(Ordering::Relaxed))
        }

        fn pause(&self) {}
    }

    fn budget(total: u64) -> &'static MemoryBudget {
        Box::leak(Box::new(MemoryBudget::new(total)))
    }

    fn layer(
        budget: &'static MemoryBudget,
        registry: &str,
        pull: u64,
    ) -> (Arc<LayerMemory>, Arc<Coming>) {
        let owner = Owner {
            registry: registry.to_owned(),
            pull,
        };
        let download = Arc::new(Coming::default());
        let memory = LayerMemory::of(budget, owner, Some(Arc::clone(&download) as _));
        (memory, download)
    }

    #[test]
    fn a_window_beyond_the_budget_is_refused_with_size_limit_and_key() {
        let (memory, _) = layer(budget(40 * MIB), "a", 1);
        let error = memory.claim(128 * MIB).unwrap_err().to_string();
        for part in ["134217728", "41943040", "images.unpack_memory"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn layers_that_are_downloaded_slowly_leave_memory_to_complete_ones() {
        let budget = budget(40 * MIB);
        let mut early = Vec::new();
        for registry in 0..50 {
            let (memory, download) = layer(budget, &registry.to_string(), registry);
            let claim = budget.claim_early(&memory.owner, needed(8 * MIB));
            early.extend(claim.map(|claim| (claim, memory, download)));
        }
        assert_eq!(early.len(), 3);
        let (complete, download) = layer(budget, "honest", 99);
        download.0.store(true, Ordering::Relaxed);
        // The reserve serves small layers at once.
        let _small = complete.claim(64 << 10).unwrap();
        let (tell, told) = channel();
        std::thread::spawn(move || tell.send(complete.claim(8 * MIB)));
        assert!(told.recv_timeout(2 * POLL).is_err());
        let (claim, slow, _) = early.pop().unwrap();
        slow.attempt.lock().early_since = Instant::now().checked_sub(2 * UNDISTURBED);
        slow.keep().unwrap_err();
        assert!(slow.is_displaced());
        drop(claim);
        told.recv_timeout(Duration::from_secs(20)).unwrap().unwrap();
        // The queue is empty, so the others keep their memory.
        let (_claim, other, _) = &early[0];
        other.attempt.lock().early_since = Instant::now().checked_sub(2 * UNDISTURBED);
        other.keep().unwrap();
    }

    #[test]
    fn a_registry_with_much_memory_waits_for_one_with_none() {
        let budget = budget(40 * MIB);
        let file = |registry: &str, pull| {
            let (memory, download) = layer(budget, registry, pull);
            download.0.store(true, Ordering::Relaxed);
            memory
        };
        let first = file("greedy", 1).claim(16 * MIB).unwrap();
        let second = file("greedy", 2).claim(6 * MIB).unwrap();
        let (tell, told) = channel();
        let queue = |memory: Arc<LayerMemory>, name| {
            let tell = tell.clone();
            let before = budget.state.lock().queue.len();
            std::thread::spawn(move || tell.send((name, memory.claim(16 * MIB))));
            while budget.state.lock().queue.len() == before {
                std::thread::yield_now();
            }
        };
        queue(file("greedy", 3), "greedy");
        queue(file("modest", 4), "modest");
        drop(second);
        let (name, claim) = told.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!(name, "modest");
        drop((claim.unwrap(), first));
        let (name, claim) = told.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!(name, "greedy");
        drop(claim.unwrap());
        assert_eq!(budget.state.lock().used, 0);
        assert!(budget.state.lock().registries.is_empty());
    }

    #[test]
    fn a_window_that_grows_starts_a_download_again_with_enough_memory() {
        let (memory, download) = layer(budget(40 * MIB), "a", 1);
        let mut claim = None;
        memory.enlarge(&mut claim, MIB).unwrap();
        memory.enlarge(&mut claim, MIB).unwrap();
        memory.enlarge(&mut claim, 8 * MIB).unwrap_err();
        assert!(claim.is_none());
        download.0.store(true, Ordering::Relaxed);
        assert!(memory.is_to_start_again());
        memory.enlarge(&mut claim, MIB).unwrap();
        assert_eq!(
            claim.as_ref().map(|claim| claim.bytes),
            Some(needed(8 * MIB))
        );
        memory.enlarge(&mut claim, 8 * MIB).unwrap();
        assert!(!memory.is_to_start_again());
    }
}
