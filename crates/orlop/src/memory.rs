//! Keeps the daemon's memory small.
#![allow(unsafe_code)]

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use rustix::process::DumpableBehavior;
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

/// The C library gives each thread an arena of its own and returns freed memory
/// late; with a handful of threads that costs more than the lock saves.
pub(crate) fn tune_allocator() {
    #[cfg(target_env = "gnu")]
    {
        const ARENAS: libc::c_int = 2;
        const TRIM_ABOVE: libc::c_int = 256 << 10;
        const MAP_ABOVE: libc::c_int = 256 << 10;
        // SAFETY: mallopt only sets parameters of the allocator; an unknown one
        // is refused by its return value, which changes nothing here.
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, ARENAS);
            libc::mallopt(libc::M_TRIM_THRESHOLD, TRIM_ABOVE);
            libc::mallopt(libc::M_MMAP_THRESHOLD, MAP_ABOVE);
        }
    }
}

/// Keeps the process out of core dumps: it holds passwords of registries, decryption keys and the environment of pods.
/// Programs that it starts are not affected.
pub(crate) fn disable_core_dumps() {
    let set = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    if let Err(error) = set {
        tracing::warn!(
            %error,
            "cannot disable core dumps; a core dump of the daemon would contain secrets"
        );
    }
}

/// Gives back what only the start needed: freed memory, and the program's own pages,
/// which the kernel maps sixteen at a time around each one that is touched. Those that
/// are needed again come from the page cache.
pub(crate) fn forget_the_start() {
    for (start, length) in
        untouchable(&orlop_fs::read_kernel_text("/proc/self/maps").unwrap_or_default())
    {
        // SAFETY: the range is a mapping of a file that nobody in this process can have
        // written to, so what is dropped here is read again as it was.
        unsafe {
            libc::madvise(start as *mut libc::c_void, length, libc::MADV_DONTNEED);
        }
    }
    give_back();
}

/// Gives freed memory back, also what lies between pieces that are in use.
fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim has no preconditions.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// What the allocator holds, in bytes: in use, free within what it has of the kernel, mapped for large pieces.
/// Nothing where it does not tell.
pub(crate) fn allocated() -> serde_json::Value {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: mallinfo2 has no preconditions, and answers by value.
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

/// Gives memory back once a burst of work is over. A daemon that does nothing is not woken for it.
#[derive(Debug)]
pub(crate) struct Settling {
    /// Work is over when there was none for so long.
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

    /// Some work was done just now.
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

    /// When work is over; none if it is, and then it is somebody else's turn to wait.
    fn due(&self) -> Option<Instant> {
        let mut state = self.state();
        let due = state.latest.map(|latest| latest + self.after);
        let due = due.filter(|due| Instant::now() < *due);
        if due.is_none()
            && let Some(own) = state.waiting.take()
        {
            // Its task is the one that asks.
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
            // It is a matter of milliseconds, which calls need not wait for.
            let _ = orlop_pool::blocking(strong.give_back).await;
            return;
        };
        drop(strong);
        tokio::time::sleep_until(due.into()).await;
    }
}

/// The mappings (address, length) of code, and of the constants at the begin of a program.
/// Others that are read-only now were written to when the program was linked at its start.
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
    /// Memory that is no file's, in kB.
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
        // What is kept of the latest lies at the end of the heap and holds all of it.
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
