//! The running calls, for diagnostics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use super::method::Method;

/// A running call.
#[derive(Debug, Clone)]
pub(crate) struct InWork {
    pub(crate) method: Method,
    /// Request ID, as in the log.
    pub(crate) id: String,
    /// Process of the client.
    pub(crate) pid: Option<i32>,
    pub(crate) begun: Instant,
}

/// All running calls, oldest first.
#[derive(Debug, Default)]
pub(super) struct AllInWork(Mutex<(u64, BTreeMap<u64, InWork>)>);

/// Removes its call from the list when dropped.
#[derive(Debug)]
pub(super) struct Listed(Arc<AllInWork>, u64);

impl AllInWork {
    pub(super) fn add(self: &Arc<Self>, call: InWork) -> Listed {
        let (next, calls) = &mut *self.0.lock();
        *next += 1;
        calls.insert(*next, call);
        Listed(Arc::clone(self), *next)
    }

    pub(super) fn all(&self) -> Vec<InWork> {
        self.0.lock().1.values().cloned().collect()
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let Self(all, number) = self;
        all.0.lock().1.remove(number);
    }
}
