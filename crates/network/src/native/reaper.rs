//! Interfaces deleted behind the caller's back.
//!
//! Deleting one takes the kernel 20 ms and more, during which no other can be
//! made. What matters of a pod's interface (its addresses) is gone before, and
//! the rest goes with the pod's namespace, many at once. Only where the
//! namespace stays is its interface deleted by itself, a little later.

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

/// A pod's interface that is out of use.
struct Job {
    netns: PathBuf,
    name: String,
    /// Tell it from one of the same name made since.
    own: Own,
    due: Instant,
}

/// How long a namespace has to go before its interface is deleted.
const GRACE: Duration = Duration::from_secs(2);

/// Enough for all pods of a large node at once.
const QUEUE: usize = 1024;

/// What two interfaces of a namespace never have in common: an Ethernet address alone may be that of
/// who had the IPv4 address before.
type Own = (MacAddress, u32);

/// The interfaces waited for.
static PENDING: Mutex<BTreeSet<Own>> = Mutex::new(BTreeSet::new());

/// One thread for the whole process, which ends with it; what it does not get
/// to goes with its namespace.
static REAPER: LazyLock<Option<SyncSender<Job>>> =
    LazyLock::new(|| {
        let (sender, receiver) = sync_channel::<Job>(QUEUE);
        let thread = std::thread::Builder::new().name("orlop-net-reap".to_owned()).spawn(move || {
        for job in receiver {
            std::thread::sleep(job.due.saturating_duration_since(Instant::now()));
            let deleted = delete_now(&job.netns, &job.name, job.own);
            pending(|set| set.remove(&job.own));
            // ENXIO: the path leads to something else, the namespace is gone.
            if let Err(error) = deleted
                && error.raw_os_error() != Some(libc::ENXIO)
            {
                tracing::warn!(%error, interface = job.name, "cannot delete a pod's interface");
            }
        }
    });
        thread.ok().map(|_| sender)
    });

/// Has a pod's interface deleted, if its namespace does not go first.
pub(super) fn delete_later(netns: &Path, link: &Link) -> io::Result<()> {
    // An interface without an Ethernet address is none of a bridge's or ptp's.
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

/// Deletes an interface that still is waited for, because its name is needed
/// again; any other is left alone.
pub(super) fn delete_early(netns: &Path, name: &str) -> io::Result<()> {
    let waiting: Vec<_> = pending(|set| set.iter().copied().collect());
    waiting
        .into_iter()
        .try_for_each(|own| delete_now(netns, name, own))
}

/// Deletes this very interface, if it (and its
/// namespace) is there.
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
        // The path leads to something else by now: the namespace is gone.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        Err(error) => Err(error),
    }
}

fn pending<T>(work: impl FnOnce(&mut BTreeSet<Own>) -> T) -> T {
    work(&mut PENDING.lock())
}
