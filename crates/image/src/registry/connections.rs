//! Connections: so many at once to one host, and a bounded number to all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{Error, Result};

/// How many hosts may have all the connections that one may have.
const HOSTS: usize = 16;

/// The connections that all pulls share.
pub(crate) struct Connections {
    all: Arc<Semaphore>,
    share: usize,
    hosts: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// The right to one connection to a host, until it is dropped.
pub(crate) struct Connection {
    _of_host: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Connections {
    /// So many at once to one host. Those that answer slowly, or never end an answer, leave the
    /// others theirs.
    pub(super) fn new(share: usize) -> Self {
        let share = share.max(1);
        Self {
            all: Arc::new(Semaphore::new(share * HOSTS)),
            share,
            hosts: Mutex::default(),
        }
    }

    /// Waits for a connection to `host` to be free.
    pub(super) async fn to(&self, host: &str) -> Result<Connection> {
        let closed = |_| Error::Cancelled("waiting for a connection".to_owned());
        // The host's own come first: who waits for those must not hold one that others could use.
        let of_host = self.of(host).acquire_owned().await.map_err(closed)?;
        let of_all = Arc::clone(&self.all)
            .acquire_owned()
            .await
            .map_err(closed)?;
        Ok(Connection {
            _of_host: of_host,
            _of_all: of_all,
        })
    }

    fn of(&self, host: &str) -> Arc<Semaphore> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        // Who holds or waits for a connection holds the host's share as well.
        hosts.retain(|_, share| Arc::strong_count(share) > 1);
        let share = hosts
            .entry(host.to_owned())
            .or_insert_with(|| Arc::new(Semaphore::new(self.share)));
        Arc::clone(share)
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
                while let Some(connection) = at_once(connections.to(&format!("slow{host}"))) {
                    held.push(connection.unwrap());
                }
                assert_eq!(held.len(), share * host);
            }
            at_once(connections.to("other")).unwrap().unwrap();
            for _ in 0..share {
                held.push(at_once(connections.to("last")).unwrap().unwrap());
            }
            assert!(at_once(connections.to("other")).is_none(), "no bound");
            drop(held);
            at_once(connections.to("slow1")).unwrap().unwrap();
        }
    }
}
