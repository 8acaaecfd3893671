//! The allocator. A command runs for a few milliseconds and allocates from one block of memory that is not freed: this
//! avoids most system calls of an allocator. Larger or longer needs use the system's allocator for the rest. The child
//! of a clone may not allocate at all.
#![allow(unsafe_code, reason = "this is an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Pages that are never touched use no memory.
const SIZE: usize = 512 << 10;

/// Memory that is handed out from its start.
#[repr(align(4096))]
struct Piece {
    memory: UnsafeCell<[u8; SIZE]>,
    /// Number of bytes that are handed out.
    used: AtomicUsize,
}

// SAFETY: each part of the memory is handed out once, by an exchange of `used`, and then belongs to whom
// it was handed to until it is given back.
unsafe impl Sync for Piece {}

#[global_allocator]
static HEAP: Piece = Piece {
    memory: UnsafeCell::new([0; SIZE]),
    used: AtomicUsize::new(0),
};

static REFUSED: AtomicBool = AtomicBool::new(false);

/// Makes every later allocation end the process. Code between clone and `execve` must not allocate, and every container
/// start checks this.
pub(crate) fn refuse() {
    REFUSED.store(true, Relaxed);
}

/// Maps the pages that a container start needs at once: a page fault for each costs ten times as much. Kernels before
/// 5.14 cannot do this, and map them one by one.
pub(crate) fn warm() {
    const OF_HEAP: usize = 128 << 10;
    const OF_STACK: usize = 48 << 10;
    let touch = |start: *mut u8, length| {
        // SAFETY: pages come into being as a write to them would have them; no byte of them is changed.
        let _ = unsafe { libc::madvise(start.cast(), length, libc::MADV_POPULATE_WRITE) };
    };
    touch(HEAP.start(), OF_HEAP);
    let mut here = 0_u8;
    let page = (&raw mut here).map_addr(|address| address & !0xfff);
    touch(page.wrapping_sub(OF_STACK), OF_STACK);
}

fn check() {
    if REFUSED.load(Relaxed) {
        const MESSAGE: &[u8] = b"orlop-run: the child of a clone tried to allocate memory\n";
        let _ = rustix::io::write(rustix::stdio::stderr(), MESSAGE);
        std::process::abort();
    }
}

impl Piece {
    fn start(&self) -> *mut u8 {
        self.memory.get().cast()
    }

    /// Returns the offset of a pointer in the block, if it is in it.
    fn place_of(&self, pointer: *mut u8) -> Option<usize> {
        let place = pointer.addr().wrapping_sub(self.start().addr());
        (place < SIZE).then_some(place)
    }

    /// Hands out the next part that fits, if there is one.
    fn next(&self, layout: Layout) -> Option<*mut u8> {
        loop {
            let used = self.used.load(Relaxed);
            // The block is page-aligned; larger alignments are not served from it.
            let place = used.checked_next_multiple_of(layout.align())?;
            let end = place.checked_add(layout.size())?;
            if end > SIZE || layout.align() > 4096 {
                return None;
            }
            if self.resize(used, end) {
                return Some(self.start().wrapping_add(place));
            }
        }
    }

    /// Moves the end of the used part, if it is still at `from`.
    fn resize(&self, from: usize, to: usize) -> bool {
        to <= SIZE
            && self
                .used
                .compare_exchange(from, to, Relaxed, Relaxed)
                .is_ok()
    }
}

// SAFETY: a part is handed out to one only, as large and aligned as asked for. What is not within the piece
// is left to the system's allocator, whose contract is the same.
unsafe impl GlobalAlloc for Piece {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        check();
        // SAFETY: the caller keeps the contract.
        let elsewhere = || unsafe { System.alloc(layout) };
        self.next(layout).unwrap_or_else(elsewhere)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        match self.place_of(pointer) {
            // The last part is freed; earlier parts are not reused.
            Some(place) => {
                self.resize(place + layout.size(), place);
            }
            // SAFETY: it came from there, and the caller keeps the contract.
            None => unsafe { System.dealloc(pointer, layout) },
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        check();
        let Some(place) = self.place_of(pointer) else {
            // SAFETY: it came from there, and the caller keeps the contract.
            return unsafe { System.realloc(pointer, layout, size) };
        };
        let fits = size <= layout.size();
        let end = place.checked_add(size);
        if end.is_some_and(|end| self.resize(place + layout.size(), end)) || fits {
            return pointer;
        }
        // SAFETY: the caller sees to it that the size is one of a layout.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: the caller keeps the contract.
        let new = unsafe { self.alloc(wanted) };
        if !new.is_null() {
            // SAFETY: both are as long as the old one at least, and the new one is nobody else's.
            unsafe { new.copy_from_nonoverlapping(pointer, layout.size()) };
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::{HEAP, SIZE};

    #[test]
    fn what_grows_keeps_its_content_wherever_it_goes() {
        let mut grown = Vec::new();
        let mut others = Vec::new();
        for n in 0..SIZE {
            grown.push(n as u32);
            if n % 1000 == 0 {
                others.push(vec![n; 10]);
            }
        }
        assert!(grown.iter().enumerate().all(|(n, it)| *it == n as u32));
        assert!(
            others
                .iter()
                .all(|other| other.iter().all(|n| *n == other[0]))
        );
        assert_eq!(HEAP.place_of(grown.as_mut_ptr().cast()), None);
    }

    #[test]
    fn what_is_asked_for_empty_is_empty_though_it_was_used_before() {
        for _ in 0..100 {
            let mut used = vec![7_u8; 4096];
            used.fill(9);
            drop(used);
            assert!(vec![0_u8; 4096].iter().all(|byte| *byte == 0));
        }
    }
}
