//! Masquerading by sets: a table of our own, in which a network's pods are elements of a set.
//!
//! ```text
//! table ip orlop {
//!     set masquerade-1f2e… { type ipv4_addr; elements = { 10.88.0.7 comment "POD eth0", … } }
//!     chain postrouting {
//!         type nat hook postrouting priority srcnat + 1
//!         ip saddr @masquerade-1f2e… ip daddr != 10.88.0.0/16 ip daddr != 224.0.0.0/4 masquerade
//!     }
//! }
//! ```
//!
//! With a chain for each pod, as `iptables` has it, the kernel looks through all chains at each
//! change; an element costs the same however many there are.

use std::io;
use std::net::IpAddr;

use super::expression::{Compare, comment_data, destination, lookup, masquerade};
use super::nftables::{NFT_MSG_NEWTABLE, commit};
use super::own_table::{
    POSTROUTING, Set, Type, base_chain, is_missing, is_there, message, rule, sets,
};
use super::rule::{Family, hash_name};
use crate::Cidr;
use crate::cidr::octets;
use crate::netlink::{Message, Socket};

/// The pods of one network whose packets to the outside bear the node's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Masquerade {
    family: Family,
    network: String,
    /// Where packets keep their source: the pods' own networks.
    inside: Vec<Cidr>,
    set: String,
}

const PREFIX: &str = "masquerade-";
/// Digits of the hash in a set's name.
const DIGITS: usize = 16;

impl Masquerade {
    /// For pods with these addresses, all of one family.
    pub(crate) fn new(family: Family, network: &str, addresses: &[Cidr]) -> Self {
        let mut inside: Vec<Cidr> = addresses.iter().map(Cidr::network).collect();
        inside.sort_unstable_by_key(ToString::to_string);
        inside.dedup();
        let places: Vec<_> = inside.iter().map(ToString::to_string).collect();
        let mut set = hash_name(PREFIX, network, &places.join(","));
        set.truncate(PREFIX.len() + DIGITS);
        Self {
            family,
            network: network.to_owned(),
            inside,
            set,
        }
    }

    /// Has the packets of these addresses masqueraded.
    pub(super) fn add(
        &self,
        socket: &mut Socket,
        owner: &str,
        addresses: &[IpAddr],
    ) -> io::Result<()> {
        let keys: Vec<_> = addresses.iter().map(|address| octets(*address)).collect();
        let add = |socket: &mut Socket, mut changes: Vec<Message>| {
            let elements = keys.iter().map(|key| (key.as_slice(), None));
            changes.push(self.set().add(owner, elements));
            commit(socket, changes)
        };
        let mut added = add(socket, Vec::new());
        // The first of its network.
        if is_missing(&added) {
            added = add(socket, self.make());
            // Another program's pod was faster.
            if is_there(&added) {
                added = add(socket, Vec::new());
            }
        }
        if !is_there(&added) {
            return added;
        }
        // Left over by a crash, or by one who does not know of them.
        for key in &keys {
            if self.set().owner_of(socket, key)?.is_some() {
                commit(socket, vec![self.set().delete(key)])?;
            }
        }
        add(socket, Vec::new())
    }

    /// Ends that, for those of the addresses that are this owner's.
    pub(super) fn remove(
        &self,
        socket: &mut Socket,
        owner: &str,
        addresses: &[IpAddr],
    ) -> io::Result<()> {
        for address in addresses {
            if self.stands(socket, owner, *address)? {
                commit(socket, vec![self.set().delete(&octets(*address))])?;
            }
        }
        Ok(())
    }

    /// Whether the packets of an address of this owner's are masqueraded.
    pub(super) fn stands(
        &self,
        socket: &mut Socket,
        owner: &str,
        address: IpAddr,
    ) -> io::Result<bool> {
        let found = self.set().owner_of(socket, &octets(address))?;
        Ok(found == Some(comment_data(owner)))
    }

    fn set(&self) -> Set<'_> {
        Set {
            family: self.family,
            name: &self.set,
        }
    }

    /// The table, its chain, and the set with its rule.
    fn make(&self) -> Vec<Message> {
        let key = Type::address(self.family);
        // Not what goes to many: 224.0.0.0/4 and ff00::/8.
        let many = match self.family {
            Family::V4 => Cidr::new(IpAddr::from([224, 0, 0, 0]), 4),
            Family::V6 => Cidr::new(IpAddr::from([0xff00, 0, 0, 0, 0, 0, 0, 0]), 8),
        };
        let whose = format!("network {}", self.network);
        vec![
            message(self.family, NFT_MSG_NEWTABLE, libc::NLM_F_CREATE),
            base_chain(self.family, POSTROUTING),
            // Must be new: with a set goes one rule.
            self.set().make(1, libc::NLM_F_EXCL, key, None),
            rule(self.family, POSTROUTING, &whose, |list| {
                let list = lookup(list, self.family, &self.set);
                let kept = self.inside.iter().copied().chain(many);
                masquerade(kept.fold(list, |list, cidr| {
                    destination(list, cidr, Compare::NotEqual)
                }))
            }),
        ]
    }
}

/// Ends the masquerading of an owner whose addresses nobody knows any more.
pub(super) fn remove_owner(socket: &mut Socket, family: Family, owner: &str) -> io::Result<()> {
    for (name, key) in of_owner(socket, family, owner)? {
        let set = Set {
            family,
            name: &name,
        };
        commit(socket, vec![set.delete(&key)])?;
    }
    Ok(())
}

/// An owner's elements: the names of the sets, and the keys.
pub(super) fn of_owner(
    socket: &mut Socket,
    family: Family,
    owner: &str,
) -> io::Result<Vec<(String, Vec<u8>)>> {
    let data = comment_data(owner);
    let mut found = Vec::new();
    for name in sets(socket, family, PREFIX)? {
        let set = Set {
            family,
            name: &name,
        };
        let elements = set.all(socket)?.into_iter();
        let own = elements.filter(|(_, owner)| *owner == data);
        found.extend(own.map(|(key, _)| (name.clone(), key)));
    }
    Ok(found)
}
