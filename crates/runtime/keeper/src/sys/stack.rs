//! Gives back stack memory, of which pod setup and container start need far more than waiting.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::hint::black_box;

/// The range that is given back: more than was ever used, less than the kernel reserves for the first thread.
const DEPTH: usize = 64 << 10;
/// Many times what this call itself needs.
const KEPT: usize = 1 << 10;
const PAGE: usize = 4 << 10;

/// Returns unused stack memory to the kernel. Must be called by the first thread.
pub(crate) fn give_back() {
    let here = black_box(0_u8);
    let here = (&raw const here).addr();
    let top = (here - KEPT) & !(PAGE - 1);
    let bottom = std::ptr::without_provenance_mut::<c_void>(top - DEPTH);
    // SAFETY: a stack grows downwards, so that nothing is in use below this frame and what the processor
    // may write below it (128 bytes). What is given back reads as zeroes when it is used again. Where
    // nothing is mapped nothing is given back.
    unsafe { libc::madvise(bottom, DEPTH, libc::MADV_DONTNEED) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn use_deep(depth: usize) -> u64 {
        let mut block = [depth as u8; PAGE];
        black_box(&mut block);
        let below = if depth == 0 { 0 } else { use_deep(depth - 1) };
        below + u64::from(black_box(&block)[7])
    }

    fn own_stack_kb() -> usize {
        let status = orlop_fs::read_kernel_text("/proc/thread-self/smaps").unwrap();
        let here = (&raw const status).addr();
        let mut in_it = false;
        for line in status.lines() {
            if let Some((from, to)) = line.split_once(' ').and_then(|(it, _)| it.split_once('-'))
                && let Ok(from) = usize::from_str_radix(from, 16)
                && let Ok(to) = usize::from_str_radix(to, 16)
            {
                in_it = (from..to).contains(&here);
            } else if in_it && let Some(size) = line.strip_prefix("Rss:") {
                return size.trim().trim_end_matches(" kB").parse().unwrap();
            }
        }
        panic!("no stack");
    }

    #[test]
    fn what_was_used_is_given_back_and_may_be_used_again() {
        let used = use_deep(12);
        let deep = own_stack_kb();
        give_back();
        let shallow = own_stack_kb();
        assert!(shallow + 24 <= deep, "{deep} kB, then {shallow}");
        assert_eq!(use_deep(12), used);
    }
}
