//! Limits of processor time that were raised and could not be given back, because whoever had the cgroup's lock
//! stood still: they are tried again until it is done, whatever else happens, or does not.

use std::collections::BTreeMap;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::raised_limit::give_back;

/// The pauses before it is tried again grow from the one to the other.
const SOON: Duration = Duration::from_millis(500);
const LATE: Duration = Duration::from_secs(30);

/// What it does needs little.
const STACK: usize = 128 << 10;

static OWED: Mutex<Owed> = Mutex::new(Owed {
    limits: BTreeMap::new(),
    debtor: false,
});

struct Owed {
    /// The directories of cgroups, and the files of their limits.
    limits: BTreeMap<PathBuf, &'static str>,
    /// Whether there is a thread that sees to them.
    debtor: bool,
}

/// Has a limit given back later.
pub(crate) fn owe(dir: &Path, name: &'static str) {
    let mut owed = owed();
    owed.limits.insert(dir.to_owned(), name);
    if !owed.debtor {
        // Where there can be none, whoever owes next tries again, as does who kills there next.
        let thread = thread::Builder::new().name("limits".into());
        owed.debtor = thread.stack_size(STACK).spawn(give_back_all).is_ok();
    }
}

/// Ends once nothing is owed.
fn give_back_all() {
    let mut pause = SOON;
    loop {
        thread::sleep(pause);
        pause = (pause * 2).min(LATE);
        // Taken from there: what is owed again meanwhile stays.
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
