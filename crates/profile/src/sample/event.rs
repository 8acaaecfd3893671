//! One clock of one thread, and what it has written (`perf_event_open(2)`).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::unwind::ASKED;

/// How much of a stack is copied at each sample, where it has as much. A record ends at 64 KiB.
const STACK: u32 = 60 << 10;
/// What the kernel may write before it is read: seventeen samples with all of that.
const RING: usize = 1 << 20;

/// `PERF_TYPE_SOFTWARE`, `PERF_COUNT_SW_CPU_CLOCK`.
const SOFTWARE: u32 = 1;
const CPU_CLOCK: u64 = 0;
/// `PERF_SAMPLE_TID | _CALLCHAIN | _REGS_USER | _STACK_USER`: what a record holds, in this order.
const SAMPLE: u64 = 1 << 1 | 1 << 5 | 1 << 12 | 1 << 13;
/// Bits of the attributes: `exclude_kernel`, `exclude_hv`, `freq`, `exclude_callchain_kernel`, `exclude_callchain_user`.
const NO_KERNEL: u64 = 1 << 5;
const NO_HYPERVISOR: u64 = 1 << 6;
const FREQUENCY: u64 = 1 << 10;
const NO_KERNEL_CALLERS: u64 = 1 << 21;
const NO_CALLERS: u64 = 1 << 22;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 8;
/// `data_head` and `data_tail` in the page before the records (`struct perf_event_mmap_page`).
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// `struct perf_event_attr` as of its fifth version, which Linux has had since 4.1.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    frequency: u64,
    sample: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    config1: u64,
    config2: u64,
    branches: u64,
    registers: u64,
    stack: u32,
    clock: i32,
    registers_at_interrupt: u64,
    aux_watermark: u32,
    max_stack: u16,
    reserved: u16,
}

/// A thread's clock.
#[derive(Debug)]
pub(super) struct Event {
    ring: NonNull<u8>,
    page: usize,
    _file: OwnedFd,
}

impl Event {
    /// Samples a thread so many times in each second of processor time that it takes; what it does in the
    /// kernel as well, or not.
    pub(super) fn open(thread: i32, frequency: u32, with_kernel: bool) -> io::Result<Self> {
        let kernel = if with_kernel {
            0
        } else {
            NO_KERNEL | NO_KERNEL_CALLERS
        };
        let attributes = Attributes {
            kind: SOFTWARE,
            size: size_of::<Attributes>() as u32,
            config: CPU_CLOCK,
            frequency: frequency.into(),
            sample: SAMPLE,
            flags: FREQUENCY | NO_HYPERVISOR | NO_CALLERS | kernel,
            registers: ASKED.iter().map(|(bit, _)| 1 << bit).sum(),
            stack: STACK,
            ..Attributes::default()
        };
        // SAFETY: the kernel reads as much of the attributes as they say that they are long.
        let opened = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                ptr::from_ref(&attributes),
                thread,
                -1,
                -1,
                CLOSE_ON_EXEC,
            )
        };
        let number = i32::try_from(opened).unwrap_or(-1);
        if number < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just opened it, for us alone.
        let file = unsafe { OwnedFd::from_raw_fd(number) };
        let page = rustix::param::page_size();
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let ring = unsafe {
            libc::mmap(
                ptr::null_mut(),
                page + RING,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if ring == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            ring: NonNull::new(ring.cast()).ok_or(io::ErrorKind::InvalidData)?,
            page,
            _file: file,
        })
    }

    /// Moves what the kernel has written to the end of a buffer.
    pub(super) fn drain(&mut self, into: &mut Vec<u8>) {
        let ring = self.ring.as_ptr();
        // SAFETY: both numbers are in the first page, aligned; the kernel and we know them as atomic.
        let (head, tail) = unsafe {
            (
                AtomicU64::from_ptr(ring.add(HEAD).cast()),
                AtomicU64::from_ptr(ring.add(TAIL).cast()),
            )
        };
        let (end, begin) = (head.load(Ordering::Acquire), tail.load(Ordering::Relaxed));
        let count = usize::try_from(end.wrapping_sub(begin)).unwrap_or(RING);
        let count = count.min(RING);
        let first = (begin % RING as u64) as usize;
        let before_wrap = count.min(RING - first);
        for (from, count) in [(first, before_wrap), (0, count - before_wrap)] {
            // SAFETY: the range is within the mapping behind its first page; what is between tail and head
            // the kernel leaves alone until the tail is moved.
            let part = unsafe { std::slice::from_raw_parts(ring.add(self.page + from), count) };
            into.extend_from_slice(part);
        }
        tail.store(end, Ordering::Release);
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, of this length, and nobody has a reference into it.
        unsafe {
            libc::munmap(self.ring.as_ptr().cast(), self.page + RING);
        }
    }
}
