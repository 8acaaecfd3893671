//! The allocator, which refuses the child of a clone.
#![allow(unsafe_code, reason = "this is an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

/// The system's allocator, until [`refuse`] is called.
struct Guarded;

#[global_allocator]
static HEAP: Guarded = Guarded;

static REFUSED: AtomicBool = AtomicBool::new(false);

/// From now on an allocation ends the process: what runs between clone and `execve` needs none, and
/// is held to it in every container that is made.
pub(crate) fn refuse() {
    REFUSED.store(true, Ordering::Relaxed);
}

fn check() {
    if REFUSED.load(Ordering::Relaxed) {
        const MESSAGE: &[u8] = b"orlop-run: the child of a clone asked for memory\n";
        let _ = rustix::io::write(rustix::stdio::stderr(), MESSAGE);
        std::process::abort();
    }
}

// SAFETY: all is left to the system's allocator, whose contract is the same.
unsafe impl GlobalAlloc for Guarded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        check();
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        check();
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        check();
        // SAFETY: the caller keeps the contract.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
