//! Who is connected, and who makes room where there is none.
//!
//! A program that opens connections and says nothing, or forgets to close them, must not keep a
//! kubelet out. Where all places are taken, the next one to come takes that of one that asks for nothing:
//! first of who has never called, the longest there; else of the process that has the most connections,
//! which loses the one that was quiet for longest. Who has all its answers and does not read them asks for
//! nothing either. gRPC's clients connect again by themselves when they call next. Where calls are in work on
//! all of them, who comes waits.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::rpc::{Peer, Standing};

/// Who waits for a place looks again then: some may have become quiet.
const AGAIN: Duration = Duration::from_millis(100);

/// All that are connected.
#[derive(Debug)]
pub(super) struct Guests {
    rooms: Arc<Semaphore>,
    there: Mutex<(u64, BTreeMap<u64, Peer>)>,
}

/// A place among them, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    guests: Arc<Guests>,
    number: u64,
    lost: Pin<Box<WaitForCancellationFutureOwned>>,
    _room: OwnedSemaphorePermit,
}

impl Guests {
    /// Nobody yet, and room for so many.
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            rooms: Arc::new(Semaphore::new(most)),
            there: Mutex::default(),
        })
    }

    /// Room for one more, made where there is none.
    pub(super) async fn room(&self) -> OwnedSemaphorePermit {
        loop {
            if let Ok(room) = Arc::clone(&self.rooms).try_acquire_owned() {
                return room;
            }
            if let Some(guest) = self.dispensable() {
                tracing::debug!(
                    pid = guest.process(),
                    "all connections are taken: one that asks for nothing is closed"
                );
                guest.leave();
            }
            let room = Arc::clone(&self.rooms).acquire_owned();
            if let Ok(Ok(room)) = tokio::time::timeout(AGAIN, room).await {
                return room;
            }
        }
    }

    /// Lets one in.
    pub(super) fn enter(self: &Arc<Self>, peer: Peer, room: OwnedSemaphorePermit) -> Place {
        let (next, guests) = &mut *self.there.lock();
        *next += 1;
        let lost = Box::pin(peer.left());
        guests.insert(*next, peer);
        Place {
            guests: Arc::clone(self),
            number: *next,
            lost,
            _room: room,
        }
    }

    /// Who is to go.
    fn dispensable(&self) -> Option<Peer> {
        let there = self.there.lock();
        let mut of_process = HashMap::<_, usize>::new();
        let guests = there.1.values();
        let guests: Vec<_> = guests.filter(|guest| !guest.is_leaving()).collect();
        for guest in &guests {
            *of_process.entry(guest.process()).or_default() += 1;
        }
        let dispensable = guests.into_iter().filter_map(|guest| {
            let standing = guest.standing();
            let others = match standing {
                Standing::Newcomer(_) => usize::MAX,
                Standing::Quiet(_) => of_process[&guest.process()],
                Standing::Calling => return None,
            };
            Some((std::cmp::Reverse(others), standing, guest))
        });
        let first = dispensable.min_by_key(|(others, standing, _)| (*others, *standing));
        first.map(|(.., guest)| guest.clone())
    }
}

impl Place {
    /// Ready once somebody else is to have it.
    pub(super) fn poll_lost(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.lost.as_mut().poll(context)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.guests.there.lock().1.remove(&self.number);
    }
}
