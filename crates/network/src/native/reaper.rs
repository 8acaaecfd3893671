//! Deferred deletion of interfaces.
//!
//! The kernel takes 20 ms and more to delete an interface, and cannot create another one during that time. The caller
//! removes the addresses of a pod's interface at once. The interface itself disappears with the pod's namespace, many
//! at once. Only if the namespace stays does the reaper delete the interface, a little later.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::MacAddress;
use crate::netlink::{Link, Rtnl};
use crate::netns;

/// An interface of a detached pod.
struct Job {
    netns: PathBuf,
    name: String,
    /// Distinguishes it from a newer interface of the same name.
    own: Own,
    due: Instant,
}

/// Delay before an interface is deleted; its namespace usually disappears earlier.
const GRACE: Duration = Duration::from_secs(2);

/// Size of the queue: enough for all pods of a large node at once.
const QUEUE: usize = 1024;

/// Identity of an interface within a namespace. The Ethernet address alone is not unique: it may be that of the IPv4
/// address's previous owner.
type Own = (MacAddress, u32);

/// The interfaces in the queue.
static PENDING: Mutex<BTreeSet<Own>> = Mutex::new(BTreeSet::new());

/// The queue of the only reaper thread of the process. Interfaces that it does not reach before the process exits
/// disappear with their namespaces.
static REAPER: LazyLock<Option<SyncSender<Job>>> =
    LazyLock::new(|| {
        let (sender, receiver) = sync_channel::<Job>(QUEUE);
        let thread = std::thread::Builder::new().name("orlop-net-reap".to_owned()).spawn(move || {
        for job in receiver {
            std::thread::sleep(job.due.saturating_duration_since(Instant::now()));
            let deleted = delete_now(&job.netns, &job.name, job.own);
            pending(|set| set.remove(&job.own));
            // ENXIO: the path leads to another file; the namespace is gone.
            if let Err(error) = deleted
                && error.raw_os_error() != Some(libc::ENXIO)
            {
                tracing::warn!(%error, interface = job.name, "cannot delete a pod's interface");
            }
        }
    });
        thread.ok().map(|_| sender)
    });

/// Queues a pod's interface for deletion, unless its namespace disappears first.
pub(super) fn delete_later(netns: &Path, link: &Link) -> io::Result<()> {
    // Interfaces of `bridge` and `ptp` always have an Ethernet address.
    let Some(mac) = link.mac else { return Ok(()) };
    let own = (mac, link.index);
    pending(|set| set.insert(own));
    let due = Instant::now() + GRACE;
    let job = Job {
        netns: netns.to_owned(),
        name: link.name.clone(),
        own,
        due,
    };
    let refused = match &*REAPER {
        Some(sender) => sender.try_send(job).err(),
        None => Some(TrySendError::Disconnected(job)),
    };
    match refused {
        None => Ok(()),
        Some(TrySendError::Full(job) | TrySendError::Disconnected(job)) => {
            delete_now(&job.netns, &job.name, job.own)
        }
    }
}

/// Deletes a queued interface early, because its name is needed again. Other interfaces stay.
pub(super) fn delete_early(netns: &Path, name: &str) -> io::Result<()> {
    let waiting: Vec<_> = pending(|set| set.iter().copied().collect());
    waiting
        .into_iter()
        .try_for_each(|own| delete_now(netns, name, own))
}

/// Deletes exactly this interface, if it and its namespace exist.
fn delete_now(netns: &Path, name: &str, own: Own) -> io::Result<()> {
    let namespace = match File::open(netns) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            pending(|set| set.remove(&own));
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let deleted = netns::inside(namespace.as_fd(), || {
        let mut rtnl = Rtnl::open()?;
        match rtnl.link_by_name(name)? {
            Some(link) if (link.mac, link.index) == (Some(own.0), own.1) => {
                rtnl.delete_link(link.index).map(|()| true)
            }
            _ => Ok(false),
        }
    });
    match deleted {
        Ok(true) => {
            pending(|set| set.remove(&own));
            Ok(())
        }
        Ok(false) => Ok(()),
        // The path leads to another file by now: the namespace is gone.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        Err(error) => Err(error),
    }
}

fn pending<T>(work: impl FnOnce(&mut BTreeSet<Own>) -> T) -> T {
    work(&mut PENDING.lock())
}
