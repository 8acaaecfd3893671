//! Interfaces deleted behind the caller's back.
//!
//! Deleting one takes the kernel 20 ms and more, which nobody has to wait
//! for: what matters of a pod's interface (its addresses) is gone before.

use std::io;
use std::sync::LazyLock;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

use crate::netlink::Rtnl;

/// An interface to delete, and the socket of its namespace.
struct Job {
    rtnl: Rtnl,
    index: u32,
}

/// Enough for all pods of a large node at once.
const QUEUE: usize = 1024;

/// One thread for the whole process, which ends with it; what it does not get
/// to goes with its namespace.
static REAPER: LazyLock<Option<SyncSender<Job>>> =
    LazyLock::new(|| {
        let (sender, receiver) = sync_channel::<Job>(QUEUE);
        let thread = std::thread::Builder::new().name("orlop-net-reap".to_owned()).spawn(move || {
        for mut job in receiver {
            if let Err(error) = job.rtnl.delete_link(job.index) {
                tracing::warn!(%error, index = job.index, "cannot delete a network interface");
            }
        }
    });
        thread.ok().map(|_| sender)
    });

/// Deletes an interface soon, in the socket's namespace, which it keeps
/// until then.
pub(super) fn delete_soon(rtnl: Rtnl, index: u32) -> io::Result<()> {
    let job = Job { rtnl, index };
    let refused = match &*REAPER {
        Some(sender) => sender.try_send(job).err(),
        None => Some(TrySendError::Disconnected(job)),
    };
    match refused {
        None => Ok(()),
        Some(TrySendError::Full(mut job) | TrySendError::Disconnected(mut job)) => {
            job.rtnl.delete_link(job.index)
        }
    }
}
