//! Journal of the unanswered requests, for a successor of this server.
//!
//! It is a memory file, which the daemon holds together with the session's `/dev/fuse`. Threads read requests
//! directly into it, so that no request is ever only in the memory of a process that may die. A read that waits is
//! recorded in an entry before its buffer is reused.
//!
//! ```text
//! words:    magic, the result of the handshake, how many entries were ever used
//!           entry 0: unique, node, offset, size and thread, deadline, flags
//!           …
//! buffers:  one for each thread, a whole request each
//! ```

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::Errno;

use crate::fuse::{Agreed, REQUEST_SIZE};
use crate::sys::{SharedMap, Slot};
use crate::waiting::Read;

/// Number of threads that read requests. They block in the kernel, which wakes one of them per request.
pub(crate) const READERS: usize = 8;

/// Maximum number of waiting reads.
pub(crate) const ENTRIES: usize = 16_384;

const MAGIC: u64 = u64::from_le_bytes(*b"orlazy01");
const ENTRY_WORDS: usize = 6;
const HEADER_WORDS: usize = 8;
const WORDS: usize = HEADER_WORDS + ENTRIES * ENTRY_WORDS;

/// Flag: the kernel can resend unanswered requests.
const RESEND: u64 = 1;
/// Flag: the session has begun.
const BEGUN: u64 = 2;

/// Flag: the reading thread received a signal.
const SIGNALLED: u64 = 1;

/// The journal of a session.
#[derive(Debug)]
pub(crate) struct Journal {
    file: OwnedFd,
    map: Arc<SharedMap>,
}

impl Journal {
    /// Creates an empty journal.
    pub(crate) fn new() -> rustix::io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("orlop-lazy", flags)?;
        let size = SharedMap::size(WORDS, READERS, REQUEST_SIZE);
        ftruncate(&file, size as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let map = SharedMap::new(&file, WORDS, READERS, REQUEST_SIZE)?;
        map.word(0).store(MAGIC, Ordering::Relaxed);
        Ok(Self {
            file,
            map: Arc::new(map),
        })
    }

    /// Opens the journal of a running session.
    pub(crate) fn take_over(file: OwnedFd) -> rustix::io::Result<(Self, Agreed)> {
        let map = SharedMap::new(&file, WORDS, READERS, REQUEST_SIZE)?;
        let flags = map.word(1).load(Ordering::Acquire);
        if map.word(0).load(Ordering::Relaxed) != MAGIC || flags & BEGUN == 0 {
            return Err(Errno::INVAL);
        }
        let journal = Self {
            file,
            map: Arc::new(map),
        };
        let agreed = Agreed {
            resend: flags & RESEND != 0,
        };
        Ok((journal, agreed))
    }

    /// Records the result of the handshake.
    pub(crate) fn begun(&self, agreed: Agreed) {
        let resend = if agreed.resend { RESEND } else { 0 };
        self.map.word(1).store(BEGUN | resend, Ordering::Release);
    }

    /// Returns a thread's buffer.
    pub(crate) fn request(&self, reader: usize) -> Option<RequestSlot> {
        self.map.slot(reader).map(RequestSlot)
    }

    /// Records a waiting read. The deadline is in milliseconds of the system-wide monotonic clock.
    pub(crate) fn note(&self, entry: usize, read: &Read, deadline: u64) {
        let size_and_pid = u64::from(read.size) | u64::from(read.pid) << 32;
        let words = [read.node, read.offset, size_and_pid, deadline, 0];
        for (at, word) in (1..).zip(words) {
            self.word(entry, at).store(word, Ordering::Relaxed);
        }
        let used = self.map.word(2);
        if used.load(Ordering::Relaxed) <= entry as u64 {
            used.store(entry as u64 + 1, Ordering::Relaxed);
        }
        self.word(entry, 0).store(read.unique, Ordering::Release);
    }

    /// Returns the number of leading entries that have ever been used. Later entries take no memory.
    pub(crate) fn used(&self) -> usize {
        (self.map.word(2).load(Ordering::Relaxed) as usize).min(ENTRIES)
    }

    /// Records that the reading thread received a signal.
    pub(crate) fn note_signal(&self, entry: usize) {
        self.word(entry, 5).store(SIGNALLED, Ordering::Relaxed);
    }

    /// Erases the entry of an answered read.
    pub(crate) fn erase(&self, entry: usize) {
        self.word(entry, 0).store(0, Ordering::Release);
    }

    /// Returns the read in an entry, if there is one.
    pub(crate) fn noted(&self, entry: usize) -> Option<Noted> {
        let unique = self.word(entry, 0).load(Ordering::Acquire);
        if unique == 0 {
            return None;
        }
        let [node, offset, size_and_pid, deadline, flags] =
            [1, 2, 3, 4, 5].map(|at| self.word(entry, at).load(Ordering::Relaxed));
        let read = Read {
            unique,
            node,
            offset,
            size: size_and_pid as u32,
            pid: (size_and_pid >> 32) as u32,
        };
        Some(Noted {
            read,
            deadline,
            signalled: flags & SIGNALLED != 0,
        })
    }

    fn word(&self, entry: usize, at: usize) -> &AtomicU64 {
        self.map.word(HEADER_WORDS + entry * ENTRY_WORDS + at)
    }
}

impl AsFd for Journal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// A read that waited when its server died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Noted {
    pub(crate) read: Read,
    pub(crate) deadline: u64,
    pub(crate) signalled: bool,
}

/// A thread's buffer, which is empty or contains an unanswered request.
#[derive(Debug)]
pub(crate) struct RequestSlot(Slot);

impl RequestSlot {
    pub(crate) fn buffer(&mut self) -> &mut [u8] {
        self.0.buffer()
    }

    /// Reports whether the buffer contains a request.
    pub(crate) fn is_full(&mut self) -> bool {
        self.buffer()[8..16] != [0; 8]
    }

    /// Clears the buffer after the request was answered or recorded in an entry.
    pub(crate) fn clear(&mut self) {
        self.buffer()[..16].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_over_finds_what_was_noted() {
        let journal = Journal::new().unwrap();
        let read = Read {
            unique: 1 << 63 | 8,
            node: 17,
            offset: 1 << 40,
            size: 1 << 20,
            pid: u32::MAX,
        };
        journal.note(ENTRIES - 1, &read, 99);
        journal.note(3, &read, 99);
        journal.erase(3);
        let mut slot = journal.request(READERS - 1).unwrap();
        assert!(journal.request(READERS - 1).is_none(), "it is one thread's");
        slot.buffer()[REQUEST_SIZE - 1] = 7;
        slot.buffer()[8] = 1;
        let file = journal.file.try_clone().unwrap();
        Journal::take_over(file).unwrap_err();
        let agreed = Agreed { resend: true };
        journal.begun(agreed);
        let file = journal.file.try_clone().unwrap();
        drop((journal, slot));

        let (journal, found) = Journal::take_over(file).unwrap();
        assert_eq!((found, journal.used()), (agreed, ENTRIES));
        let noted = Noted {
            read,
            deadline: 99,
            signalled: false,
        };
        assert_eq!(journal.noted(ENTRIES - 1), Some(noted));
        assert_eq!(journal.noted(3), None);
        journal.note_signal(ENTRIES - 1);
        assert!(journal.noted(ENTRIES - 1).unwrap().signalled);
        let mut slot = journal.request(READERS - 1).unwrap();
        assert!(slot.is_full());
        assert_eq!(slot.buffer()[REQUEST_SIZE - 1], 7);
        slot.clear();
        assert!(!slot.is_full());
    }

    /// The journal comes from the daemon.
    #[test]
    fn fuzzed_journals_do_not_break_the_successor() {
        let journal = Journal::new().unwrap();
        journal.begun(Agreed::default());
        let mut example = vec![0; (HEADER_WORDS + 2 * ENTRY_WORDS) * 8];
        rustix::io::pread(&journal.file, &mut example[..], 0).unwrap();
        example[16] = 2;
        example[HEADER_WORDS * 8] = 9;
        orlop_testkit::Fuzz::new()
            .example(example)
            .words([[0xff_u8; 8], [0; 8], [1, 0, 0, 0, 0, 0, 0, 0]])
            .run(|input| {
                let input = &input[..input.len().min(WORDS * 8)];
                rustix::io::pwrite(&journal.file, input, 0).unwrap();
                let file = journal.file.try_clone().unwrap();
                if let Ok((found, _)) = Journal::take_over(file) {
                    let noted = (0..found.used()).filter_map(|entry| found.noted(entry));
                    assert!(noted.count() <= ENTRIES);
                    assert!(found.request(0).is_some_and(|mut slot| !slot.is_full()));
                }
            });
    }

    #[test]
    fn a_file_that_may_shrink_is_refused() {
        let journal = Journal::new().unwrap();
        journal.begun(Agreed::default());
        let mut bytes = [0; 16];
        rustix::io::pread(&journal.file, &mut bytes, 0).unwrap();
        let size = SharedMap::size(WORDS, READERS, REQUEST_SIZE) as u64;
        let copy = |seals| {
            let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
            let file = memfd_create("copy", flags).unwrap();
            ftruncate(&file, size).unwrap();
            rustix::io::pwrite(&file, &bytes, 0).unwrap();
            fcntl_add_seals(&file, seals).unwrap();
            Journal::take_over(file)
        };
        copy(SealFlags::GROW | SealFlags::SEAL).unwrap_err();
        copy(SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).unwrap();
    }
}
