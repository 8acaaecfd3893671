//! A memory file mapped into memory: words that any thread may load and store, and buffers for one thread each.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::{SealFlags, fcntl_get_seals, fstat};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The alignment and the smallest unit of the buffers.
const PAGE: usize = 4096;

/// The mapping: words first, then buffers.
#[derive(Debug)]
pub(crate) struct SharedMap {
    at: NonNull<c_void>,
    words: usize,
    buffers: usize,
    buffer_size: usize,
    taken: Box<[AtomicBool]>,
}

// SAFETY: the words of the memory are only used as atomics, and each buffer only by the owner of its `Slot`.
unsafe impl Send for SharedMap {}
// SAFETY: as above.
unsafe impl Sync for SharedMap {}

impl SharedMap {
    /// Returns the required size of a file.
    pub(crate) const fn size(words: usize, buffers: usize, buffer_size: usize) -> usize {
        (words * 8).next_multiple_of(PAGE) + buffers * buffer_size.next_multiple_of(PAGE)
    }

    /// Maps a memory file whose size is sealed.
    pub(crate) fn new(
        file: &OwnedFd,
        words: usize,
        buffers: usize,
        buffer_size: usize,
    ) -> rustix::io::Result<Self> {
        let size = Self::size(words, buffers, buffer_size);
        let seals = fcntl_get_seals(file)?;
        let fixed = seals.contains(SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL);
        if !fixed || fstat(file)?.st_size as usize != size {
            return Err(Errno::INVAL);
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping does not replace another one. The file never changes its size, so that no access
        // fails.
        let at = unsafe {
            let nowhere = std::ptr::null_mut();
            mmap(nowhere, size, protection, MapFlags::SHARED, file, 0)
        }?;
        Ok(Self {
            at: NonNull::new(at).ok_or(Errno::NOMEM)?,
            words,
            buffers,
            buffer_size,
            taken: (0..buffers).map(|_| AtomicBool::new(false)).collect(),
        })
    }

    /// Returns a word; 0 in a new file.
    pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < self.words, "the index of a word is within the map");
        // SAFETY: the word lies within the mapping, is aligned because pages are, and all users access it as an
        // atomic. The mapping lives as long as `self`.
        unsafe { AtomicU64::from_ptr(self.at.cast::<u64>().add(at).as_ptr()) }
    }

    /// Returns a buffer to the first caller that requests it.
    pub(crate) fn slot(self: &Arc<Self>, index: usize) -> Option<Slot> {
        if self.taken.get(index)?.swap(true, Ordering::Acquire) {
            return None;
        }
        Some(Slot {
            map: Arc::clone(self),
            index,
        })
    }
}

impl Drop for SharedMap {
    fn drop(&mut self) {
        let size = Self::size(self.words, self.buffers, self.buffer_size);
        // SAFETY: this is the mapping that was created, and with `self` all uses of it end.
        let _ = unsafe { munmap(self.at.as_ptr(), size) };
    }
}

/// A buffer in the map, which only its owner uses.
#[derive(Debug)]
pub(crate) struct Slot {
    map: Arc<SharedMap>,
    index: usize,
}

impl Slot {
    pub(crate) fn buffer(&mut self) -> &mut [u8] {
        let size = self.map.buffer_size;
        let offset = SharedMap::size(self.map.words, self.index, size);
        // SAFETY: the buffer lies within the mapping, which the map keeps. Only the owner of the `Slot` uses it in
        // this process, and no other process with the file accesses it while this one lives.
        unsafe {
            let start = self.map.at.cast::<u8>().add(offset);
            std::slice::from_raw_parts_mut(start.as_ptr(), size)
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.map.taken[self.index].store(false, Ordering::Release);
    }
}
