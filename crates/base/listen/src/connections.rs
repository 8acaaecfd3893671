//! The open connections of a listener, and the choice of one to close for the next.
//!
//! A client that opens connections and sends nothing, or forgets to close them, must not block others. A connection
//! without a request in progress is closed if its peer has too many of them, or if no slot is free for a new
//! connection. Connections that never sent a request are closed first, then idle ones. Among them the peer with the
//! most such connections loses the one that is silent for longest. If requests are in progress on all connections, a
//! new one waits.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tokio_util::task::TaskTracker;

use crate::activity::{Activity, Standing};

/// Interval of checks of the other connections while a new one waits: some may have become idle.
const INTERVAL: Duration = Duration::from_millis(100);

/// The peer to which a connection is attributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// An IPv4 address, or an IPv6 /64 network: a single machine may have that many addresses.
    Network(IpAddr),
    /// A process of this machine, in this PID namespace.
    Process(u32),
    /// A process of another PID namespace, or a peer that has left.
    Unknown,
}

impl Origin {
    /// Returns the origin of a TCP connection.
    pub fn of_address(address: IpAddr) -> Self {
        Self::Network(match address.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
            v4 @ IpAddr::V4(_) => v4,
        })
    }

    /// Returns the origin of a connection on a unix socket; the kernel reports 0 for another PID namespace.
    pub fn of_process(id: Option<i32>) -> Self {
        match id.and_then(|id| u32::try_from(id).ok()) {
            None | Some(0) => Self::Unknown,
            Some(id) => Self::Process(id),
        }
    }

    /// Returns the process, if it is known.
    pub fn process(self) -> Option<u32> {
        match self {
            Self::Process(id) => Some(id),
            Self::Network(_) | Self::Unknown => None,
        }
    }
}

/// The connection limits of a listener.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// All connections.
    pub all: usize,
    /// Connections without a request in progress.
    pub idle: usize,
    /// Connections without a request in progress from one [`Origin`].
    pub idle_per_peer: usize,
}

impl ConnectionLimits {
    /// Limits for `all` connections, half of which may be idle connections of one peer.
    pub const fn of(all: usize) -> Self {
        Self {
            all,
            idle: all,
            idle_per_peer: all.div_ceil(2),
        }
    }
}

/// The open connections of one or several listeners.
#[derive(Debug)]
pub struct Connections {
    limits: ConnectionLimits,
    free: Arc<Semaphore>,
    newcomers: TaskTracker,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    connections: BTreeMap<u64, (Origin, Activity)>,
}

/// The slot of an open connection; dropping this frees it.
#[derive(Debug)]
pub struct Slot {
    connections: Arc<Connections>,
    number: u64,
    activity: Activity,
    closed: Pin<Box<WaitForCancellationFutureOwned>>,
    _free: OwnedSemaphorePermit,
}

impl Connections {
    /// Creates limits without connections.
    pub fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            free: Arc::new(Semaphore::new(limits.all)),
            newcomers: TaskTracker::new(),
            open: Mutex::default(),
        })
    }

    /// Tracks the connections that have not sent a request yet.
    pub fn newcomers(&self) -> &TaskTracker {
        &self.newcomers
    }

    /// Adds a connection, after closing others if necessary.
    pub async fn enter(self: &Arc<Self>, origin: Origin) -> Slot {
        let mut free = Arc::clone(&self.free).try_acquire_owned().ok();
        self.close_dispensable(origin, free.is_none());
        let free = loop {
            if let Some(free) = free {
                break free;
            }
            let next = Arc::clone(&self.free).acquire_owned();
            // The semaphore is never closed.
            free = timeout(INTERVAL, next).await.ok().and_then(Result::ok);
            if free.is_none() {
                self.close_dispensable(origin, true);
            }
        };
        let activity = Activity::new(self.newcomers.token());
        let mut open = self.open.lock();
        open.next += 1;
        let number = open.next;
        open.connections.insert(number, (origin, activity.clone()));
        drop(open);
        Slot {
            connections: Arc::clone(self),
            number,
            closed: Box::pin(activity.closed()),
            activity,
            _free: free,
        }
    }

    /// Closes a connection without a request in progress, if the limits require it.
    fn close_dispensable(&self, origin: Origin, is_full: bool) {
        let ConnectionLimits {
            idle: limit,
            idle_per_peer,
            ..
        } = self.limits;
        let open = self.open.lock();
        if !is_full && open.connections.len() < limit.min(idle_per_peer) {
            return;
        }
        let mut idle = Vec::new();
        let mut of_peer = HashMap::<_, usize>::new();
        for (peer, activity) in open.connections.values() {
            let standing = activity.standing();
            if standing != Standing::Busy && !activity.is_closing() {
                *of_peer.entry(*peer).or_default() += 1;
                idle.push((*peer, standing, activity));
            }
        }
        let own = of_peer
            .get(&origin)
            .is_some_and(|own| *own >= idle_per_peer);
        if own {
            idle.retain(|(peer, ..)| *peer == origin);
        } else if !is_full && idle.len() < limit {
            return;
        }
        let first = idle.into_iter().min_by_key(|(peer, standing, _)| {
            let is_new = matches!(standing, Standing::New(_));
            let most = std::cmp::Reverse(of_peer.get(peer).copied());
            (std::cmp::Reverse(is_new), most, *standing)
        });
        if let Some((peer, _, activity)) = first {
            tracing::debug!(
                ?peer,
                "closing a connection without requests to make room for a new one"
            );
            activity.close();
        }
    }
}

impl Slot {
    /// Returns the activity of the connection.
    pub fn activity(&self) -> &Activity {
        &self.activity
    }

    /// Becomes ready when the connection must be closed.
    pub fn poll_closed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.closed.as_mut().poll(context)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.connections
            .open
            .lock()
            .connections
            .remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Origin = Origin::Process(1);
    const OTHER: Origin = Origin::Process(2);

    fn is_closed(slot: &Slot) -> bool {
        slot.activity.is_closing()
    }

    #[test]
    fn a_machine_is_one_peer_by_whatever_address_it_comes() {
        let of = |text: &str| Origin::of_address(text.parse().unwrap());
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(Origin::of_process(Some(0)), Origin::of_process(None));
    }

    #[tokio::test]
    async fn a_peer_with_too_many_idle_connections_loses_its_own_oldest_one() {
        let connections = Connections::new(ConnectionLimits::of(8));
        let other = connections.enter(OTHER).await;
        let mut own = Vec::new();
        for _ in 0..6 {
            own.push(connections.enter(ONE).await);
        }
        let closed: Vec<_> = own.iter().map(is_closed).collect();
        assert_eq!(closed, [true, true, false, false, false, false]);
        assert!(!is_closed(&other));
    }

    #[tokio::test]
    async fn connections_with_a_request_in_progress_count_for_no_peer() {
        let connections = Connections::new(ConnectionLimits::of(8));
        let mut own = Vec::new();
        for _ in 0..8 {
            let slot = connections.enter(ONE).await;
            own.push((slot.activity.request(), slot));
        }
        assert!(own.iter().all(|(_, slot)| !is_closed(slot)));
        let full = timeout(Duration::from_millis(300), connections.enter(ONE));
        assert!(full.await.is_err(), "all are busy");
        drop(own.pop());
        connections.enter(ONE).await;
    }

    #[tokio::test]
    async fn who_never_asked_goes_first_and_then_who_has_the_most() {
        let limits = ConnectionLimits {
            all: 4,
            idle: 3,
            idle_per_peer: 3,
        };
        let connections = Connections::new(limits);
        let first = connections.enter(ONE).await;
        drop(first.activity.request());
        let second = connections.enter(ONE).await;
        drop(second.activity.request());
        let silent = connections.enter(OTHER).await;
        let third = connections.enter(Origin::Unknown).await;
        drop(third.activity.request());
        assert!(is_closed(&silent) && !is_closed(&first) && !is_closed(&second));
        drop(silent);
        let _fourth = connections.enter(OTHER).await;
        assert!(is_closed(&first) && !is_closed(&second) && !is_closed(&third));
    }
}
