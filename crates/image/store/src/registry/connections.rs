//! Limits connections: per host, per pull at a host, and in total.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use orlop_pool::{Share, Shares, most_of};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{Error, Result};

/// Number of hosts that can use their maximum number of connections at the same time.
const HOSTS: usize = 16;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// Returns a unique number for a pull.
pub(crate) fn next_number() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The connections that all pulls share.
pub(crate) struct Connections {
    all: Arc<Semaphore>,
    hosts: Shares,
    /// Each pull's share of the connections to a host.
    pulls: Shares,
}

/// A permit for one connection to a host, until it is dropped.
pub(crate) struct Connection {
    _of_pull: Share,
    _of_host: Share,
    _of_all: OwnedSemaphorePermit,
}

impl Connections {
    /// Allows `share` connections per host. So slow hosts do not block others, and a pull with only slow layers
    /// leaves connections to other pulls from the same host.
    pub(super) fn new(share: usize) -> Self {
        let share = share.max(1);
        Self {
            all: Arc::new(Semaphore::new(share * HOSTS)),
            hosts: Shares::new(share),
            pulls: Shares::new(most_of(share)),
        }
    }

    /// Waits for a free connection to `host` for the pull.
    pub(super) async fn to(&self, host: &str, pull: u64) -> Result<Connection> {
        // The limits of the pull and the host come first: a task that waits for them must not hold a connection that
        // others could use.
        let of_pull = self.pulls.take(&format!("{host} {pull}")).await;
        let of_host = self.hosts.take(host).await;
        let of_all = Arc::clone(&self.all)
            .acquire_owned()
            .await
            .map_err(|_| Error::Cancelled("waiting for a connection".to_owned()))?;
        Ok(Connection {
            _of_pull: of_pull,
            _of_host: of_host,
            _of_all: of_all,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    /// Returns the result if it is ready without waiting.
    fn at_once<T>(wanted: impl Future<Output = T>) -> Option<T> {
        tokio::task::unconstrained(wanted).now_or_never()
    }

    #[tokio::test]
    async fn hosts_that_are_slow_leave_connections_to_others() {
        for share in [1, 6] {
            let connections = Connections::new(share);
            let mut held = Vec::new();
            for host in 1..HOSTS {
                for pull in 0..8 {
                    let name = format!("slow{host}");
                    while let Some(connection) = at_once(connections.to(&name, pull)) {
                        held.push(connection.unwrap());
                    }
                }
                assert_eq!(held.len(), share * host);
            }
            at_once(connections.to("other", 0)).unwrap().unwrap();
            for pull in 0..share {
                held.push(
                    at_once(connections.to("last", pull as u64))
                        .unwrap()
                        .unwrap(),
                );
            }
            assert!(at_once(connections.to("other", 0)).is_none(), "no bound");
            drop(held);
            at_once(connections.to("slow1", 0)).unwrap().unwrap();
        }
    }

    #[tokio::test]
    async fn a_pull_leaves_connections_to_others_from_the_same_host() {
        for (share, most) in [(2, 1), (3, 2), (6, 4)] {
            let connections = Connections::new(share);
            let mut held = Vec::new();
            while let Some(connection) = at_once(connections.to("host", 1)) {
                held.push(connection.unwrap());
            }
            assert_eq!(held.len(), most);
            at_once(connections.to("host", 2)).unwrap().unwrap();
        }
    }
}
