//! Measures that keep the daemon's memory usage low.
#![allow(unsafe_code)]

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use rustix::process::DumpableBehavior;
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

/// Limits the arenas of the allocator. The C library gives each thread an arena and returns freed memory late; with few
/// threads that costs more than the lock saves.
pub(crate) fn tune_allocator() {
    #[cfg(target_env = "gnu")]
    {
        const ARENAS: libc::c_int = 2;
        const TRIM_ABOVE: libc::c_int = 256 << 10;
        const MAP_ABOVE: libc::c_int = 256 << 10;
        // SAFETY: mallopt only sets parameters of the allocator; it refuses an unknown one by its return value, which
        // changes nothing here.
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, ARENAS);
            libc::mallopt(libc::M_TRIM_THRESHOLD, TRIM_ABOVE);
            libc::mallopt(libc::M_MMAP_THRESHOLD, MAP_ABOVE);
        }
    }
}

/// Excludes the process from core dumps: it holds registry passwords, decryption keys and the environment of pods.
/// Child processes are not affected.
pub(crate) fn disable_core_dumps() {
    let set = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    if let Err(error) = set {
        tracing::warn!(
            %error,
            "cannot disable core dumps; a core dump of the daemon would contain secrets"
        );
    }
}

/// Releases memory that only the start needed: freed memory, and pages of the program. The kernel maps sixteen pages at
/// a time around each page that is touched. Pages that are needed again come from the page cache.
pub(crate) fn forget_the_start() {
    for (start, length) in
        untouchable(&orlop_fs::read_kernel_text("/proc/self/maps").unwrap_or_default())
    {
        // SAFETY: the range maps a file and is never written by this process, so dropped pages are read again
        // unchanged.
        unsafe {
            libc::madvise(start as *mut libc::c_void, length, libc::MADV_DONTNEED);
        }
    }
    give_back();
}

/// Returns freed memory to the kernel, including memory between pieces in use.
fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim has no preconditions.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Returns the bytes that the allocator holds: in use, free, and mapped for large pieces. Null if it does not report
/// them.
pub(crate) fn allocated() -> serde_json::Value {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: mallinfo2 has no preconditions, and returns its result by value.
        let told = unsafe { libc::mallinfo2() };
        serde_json::json!({
            "in_use_bytes": told.uordblks,
            "free_bytes": told.fordblks,
            "mapped_bytes": told.hblkhd,
        })
    }
    #[cfg(not(target_env = "gnu"))]
    serde_json::Value::Null
}

/// Returns memory to the kernel after a burst of work. It does not wake an idle daemon.
#[derive(Debug)]
pub(crate) struct Settling {
    /// Idle time after which a burst of work is over.
    after: Duration,
    give_back: fn(),
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    latest: Option<Instant>,
    waiting: Option<AbortOnDropHandle<()>>,
}

impl Settling {
    pub(crate) fn new() -> Arc<Self> {
        Self::with(Duration::from_secs(5), give_back)
    }

    fn with(after: Duration, give_back: fn()) -> Arc<Self> {
        Arc::new(Self {
            after,
            give_back,
            state: Mutex::default(),
        })
    }

    /// Records that work was done now.
    pub(crate) fn worked(self: &Arc<Self>) {
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let mut state = self.state();
        state.latest = Some(Instant::now());
        if state.waiting.is_none() {
            let task = runtime.spawn(wait(Arc::downgrade(self)));
            state.waiting = Some(AbortOnDropHandle::new(task));
        }
    }

    /// Returns when the work is over. If it is over, `None`; the next work then starts a new task.
    fn due(&self) -> Option<Instant> {
        let mut state = self.state();
        let due = state.latest.map(|latest| latest + self.after);
        let due = due.filter(|due| Instant::now() < *due);
        if due.is_none()
            && let Some(own) = state.waiting.take()
        {
            // The task in this handle is the caller.
            drop(own.detach());
        }
        due
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

async fn wait(settling: Weak<Settling>) {
    loop {
        let Some(strong) = settling.upgrade() else {
            return;
        };
        let Some(due) = strong.due() else {
            // It takes milliseconds, and calls need not wait for it.
            let _ = orlop_pool::blocking(strong.give_back).await;
            return;
        };
        drop(strong);
        tokio::time::sleep_until(due.into()).await;
    }
}

/// Returns the mappings (address, length) of code, and of the constants at the start of a program. Other read-only
/// mappings were written to when the program was linked at its start.
fn untouchable(maps: &str) -> impl Iterator<Item = (usize, usize)> {
    maps.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (range, access, offset) = (words.next()?, words.next()?, words.next()?);
        let file = words.nth(2)?;
        let constants = access == "r--p" && usize::from_str_radix(offset, 16) == Ok(0);
        if !file.starts_with('/') || !(access == "r-xp" || constants) {
            return None;
        }
        let (start, end) = range.split_once('-')?;
        let start = usize::from_str_radix(start, 16).ok()?;
        let end = usize::from_str_radix(end, 16).ok()?;
        Some((start, end.checked_sub(start)?))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn only_what_nobody_wrote_to_is_dropped() {
        let maps = "\
            55af79514000-55af7991a000 r--p 00000000 fe:00 10060250 /usr/bin/orlop\n\
            55af7991a000-55af7aa68000 r-xp 00405000 fe:00 10060250 /usr/bin/orlop\n\
            55af7aa68000-55af7aac9000 r--p 01552000 fe:00 10060250 /usr/bin/orlop\n\
            55af7aac9000-55af7aacd000 rw-p 015b2000 fe:00 10060250 /usr/bin/orlop\n\
            55af9c1f4000-55af9c2d8000 rw-p 00000000 00:00 0 [heap]\n\
            7f0000000000-7f0000021000 r--p 00000000 00:00 0\n\
            7ffd0c5c8000-7ffd0c5ca000 r-xp 00000000 00:00 0 [vdso]\n\
            rubbish\n";
        assert_eq!(
            untouchable(maps).collect::<Vec<_>>(),
            [
                (0x55af_7951_4000, 0x40_6000),
                (0x55af_7991_a000, 0x114_e000)
            ]
        );
    }

    #[test]
    fn the_program_goes_on() {
        forget_the_start();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        assert!(untouchable(&maps).count() >= 2);
    }
    /// Returns anonymous memory in kB.
    fn anonymous() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("RssAnon:"));
        let mut words = line.unwrap().split_ascii_whitespace();
        words.nth(1).unwrap().parse().unwrap()
    }

    #[test]
    fn what_a_burst_took_is_given_back_though_a_little_of_it_is_kept() {
        tune_allocator();
        let pieces: Vec<Vec<u8>> = (0..400_000).map(|_| vec![1; 160]).collect();
        let most = anonymous();
        // The pieces kept are the latest; they lie at the end of the heap and keep all of it.
        let kept: Vec<Vec<u8>> = pieces.into_iter().rev().take(1000).collect();
        give_back();
        let left = anonymous();
        assert!(most - left > 40 << 10, "{most} kB, then {left} kB");
        drop(kept);
    }

    #[test]
    fn memory_is_given_back_once_after_a_burst_and_never_by_an_idle_daemon() {
        static TIMES: AtomicUsize = AtomicUsize::new(0);
        let times = || TIMES.load(Ordering::SeqCst);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            let settling = Settling::with(Duration::from_millis(30), || {
                TIMES.fetch_add(1, Ordering::SeqCst);
            });
            assert!(settling.state().waiting.is_none());
            for burst in 1..=2 {
                for _ in 0..100 {
                    settling.worked();
                }
                let end = Instant::now() + Duration::from_secs(20);
                while times() < burst {
                    assert!(Instant::now() < end, "nothing is given back");
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                assert_eq!(times(), burst);
                assert!(settling.state().waiting.is_none(), "somebody still waits");
            }
        });
    }
}
