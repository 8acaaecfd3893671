//! Connections that have not yet shown an URL that is good.
//!
//! Anybody who reaches the server can open those, so there are only so many from one place. Who has
//! an URL got it over CRI, and counts as a session.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;

/// Who is there, by where they come from.
#[derive(Debug)]
pub(crate) struct Visitors {
    there: Mutex<There>,
    limit: usize,
    limit_per_peer: usize,
}

#[derive(Debug, Default)]
struct There {
    all: usize,
    by_peer: HashMap<IpAddr, usize>,
}

/// One that is there, until this is dropped.
#[derive(Debug)]
pub(crate) struct Visitor {
    visitors: Arc<Visitors>,
    peer: IpAddr,
}

impl Visitors {
    pub(crate) fn new(limit: usize, limit_per_peer: usize) -> Arc<Self> {
        Arc::new(Self {
            there: Mutex::default(),
            limit,
            limit_per_peer,
        })
    }

    /// Lets one in, unless there are as many as may be.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Visitor> {
        let peer = place_of(address);
        let mut there = self.there.lock();
        let of_peer = there.by_peer.get(&peer).copied().unwrap_or_default();
        if there.all >= self.limit || of_peer >= self.limit_per_peer {
            return None;
        }
        there.all += 1;
        there.by_peer.insert(peer, of_peer + 1);
        let visitors = Arc::clone(self);
        Some(Visitor { visitors, peer })
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        let mut there = self.visitors.there.lock();
        there.all -= 1;
        if let Some(count) = there.by_peer.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                there.by_peer.remove(&self.peer);
            }
        }
    }
}

/// One machine has a whole /64 of IPv6 as a rule.
fn place_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_place_does_not_keep_the_others_out() {
        let visitors = Visitors::new(4, 2);
        let enter = |text: &str| visitors.enter(text.parse().expect("an address"));
        let first = enter("192.0.2.1");
        let second = enter("::ffff:192.0.2.1");
        assert!(first.is_some() && second.is_some());
        assert!(enter("192.0.2.1").is_none());
        let third = enter("2001:db8::1");
        let fourth = enter("2001:db8::2");
        assert!(third.is_some() && fourth.is_some());
        assert!(enter("192.0.2.9").is_none(), "the house is full");
        drop((first, third));
        assert!(enter("2001:db8::3").is_some());
        assert!(enter("192.0.2.1").is_some());
        drop((second, fourth));
        let there = visitors.there.lock();
        assert_eq!((there.all, there.by_peer.len()), (0, 0));
    }
}
