//! Connections: so many at once to one host, most of them for one pull, and a bounded number to all.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use orlop_pool::{Share, Shares, most_of};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{Error, Result};

/// How many hosts may have all the connections that one may have.
const HOSTS: usize = 16;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A number that no other pull has.
pub(crate) fn next_number() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The connections that all pulls share.
pub(crate) struct Connections {
    all: Arc<Semaphore>,
    hosts: Shares,
    /// What one pull has of one host's.
    pulls: Shares,
}

/// The right to one connection to a host, until it is dropped.
pub(crate) struct Connection {
    _of_pull: Share,
    _of_host: Share,
    _of_all: OwnedSemaphorePermit,
}

impl Connections {
    /// So many at once to one host. Those that answer slowly, or never end an answer, leave the
    /// others theirs; and a pull whose layers all come slowly leaves some to other pulls from there.
    pub(super) fn new(share: usize) -> Self {
        let share = share.max(1);
        Self {
            all: Arc::new(Semaphore::new(share * HOSTS)),
            hosts: Shares::new(share),
            pulls: Shares::new(most_of(share)),
        }
    }

    /// Waits for a connection to `host` to be free for the pull.
    pub(super) async fn to(&self, host: &str, pull: u64) -> Result<Connection> {
        // The pull's own come first, then the host's: who waits for those must not hold one that
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

    /// What comes without waiting, however much has come before.
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
