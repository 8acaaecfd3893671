//! Retries for raised CPU limits that could not be restored, because a stopped process held the cgroup's lock. They are
//! retried until they succeed, independent of other operations.

use std::collections::BTreeMap;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::raised_limit::give_back;

/// The first and the longest pause between retries.
const SOON: Duration = Duration::from_millis(500);
const LATE: Duration = Duration::from_secs(30);

/// The thread needs little stack.
const STACK: usize = 128 << 10;

static OWED: Mutex<Owed> = Mutex::new(Owed {
    limits: BTreeMap::new(),
    debtor: false,
});

struct Owed {
    /// The directories of cgroups, and the files of their limits.
    limits: BTreeMap<PathBuf, &'static str>,
    /// Whether the retry thread is running.
    debtor: bool,
}

/// Schedules a limit to be restored later.
pub(crate) fn owe(dir: &Path, name: &'static str) {
    let mut owed = owed();
    owed.limits.insert(dir.to_owned(), name);
    if !owed.debtor {
        // If no thread can start, the next failure tries again, as does the next kill in that cgroup.
        let thread = thread::Builder::new().name("limits".into());
        owed.debtor = thread.stack_size(STACK).spawn(give_back_all).is_ok();
    }
}

/// Retries until all limits are restored.
fn give_back_all() {
    let mut pause = SOON;
    loop {
        thread::sleep(pause);
        pause = (pause * 2).min(LATE);
        // Taken out first, so that limits added meanwhile are kept.
        let limits = mem::take(&mut owed().limits);
        for (dir, name) in limits {
            if give_back(&dir, name).is_err() {
                owed().limits.insert(dir, name);
            }
        }
        let mut owed = owed();
        if owed.limits.is_empty() {
            owed.debtor = false;
            return;
        }
    }
}

fn owed() -> MutexGuard<'static, Owed> {
    OWED.lock().unwrap_or_else(PoisonError::into_inner)
}
