//! A memory file as memory: words that any thread may load and store, and buffers of one thread each.
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

/// The mapping. The first bytes are words; buffers follow.
#[derive(Debug)]
pub(crate) struct SharedMap {
    at: NonNull<c_void>,
    words: usize,
    buffers: usize,
    buffer_size: usize,
    taken: Box<[AtomicBool]>,
}

// SAFETY: of the memory, words are only used as atomics, and each buffer by the one who has its `Slot`.
unsafe impl Send for SharedMap {}
// SAFETY: as above.
unsafe impl Sync for SharedMap {}

impl SharedMap {
    /// How large a file must be.
    pub(crate) const fn size(words: usize, buffers: usize, buffer_size: usize) -> usize {
        (words * 8).next_multiple_of(PAGE) + buffers * buffer_size.next_multiple_of(PAGE)
    }

    /// Maps a memory file that has this size for ever.
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
        // SAFETY: a new mapping takes nobody's place. The file has its size for ever, so that no access
        // to it fails.
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

    /// A word; 0 in a new file.
    pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < self.words, "the index of a word is within the map");
        // SAFETY: the word lies within the mapping, is aligned as pages are, and is used as an atomic by
        // all. The mapping lives as long as `self`.
        unsafe { AtomicU64::from_ptr(self.at.cast::<u64>().add(at).as_ptr()) }
    }

    /// A buffer, for who asks first.
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
        // SAFETY: this is the mapping that was made, and with `self` all uses of it end.
        let _ = unsafe { munmap(self.at.as_ptr(), size) };
    }
}

/// A buffer in the map, which is its holder's alone.
#[derive(Debug)]
pub(crate) struct Slot {
    map: Arc<SharedMap>,
    index: usize,
}

impl Slot {
    pub(crate) fn buffer(&mut self) -> &mut [u8] {
        let size = self.map.buffer_size;
        let offset = SharedMap::size(self.map.words, self.index, size);
        // SAFETY: the buffer lies within the mapping, which the map keeps; who has the `Slot` has it
        // alone in this process, and no other process that has the file looks at it while this one lives.
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
