//! Masquerading with sets: in a table of our own, each pod of a network is an element of a set.
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
//! `iptables` uses one chain per pod, and the kernel walks all chains at each change. The cost of an element does not
//! depend on the number of pods.

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

/// The pods of one network whose packets to the outside get the node's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Masquerade {
    family: Family,
    network: String,
    /// Destinations for which packets keep their source: the pods' own networks.
    inside: Vec<Cidr>,
    set: String,
}

const PREFIX: &str = "masquerade-";
/// Number of hash digits in a set's name.
const DIGITS: usize = 16;

impl Masquerade {
    /// Creates the description for pods with these addresses, all of one family.
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

    /// Masquerades packets from these addresses.
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
        // This is the first pod of its network.
        if is_missing(&added) {
            added = add(socket, self.make());
            // Another program's pod created it first.
            if is_there(&added) {
                added = add(socket, Vec::new());
            }
        }
        if !is_there(&added) {
            return added;
        }
        // Left over from a crash, or from a program that does not use these sets.
        for key in &keys {
            if self.set().owner_of(socket, key)?.is_some() {
                commit(socket, vec![self.set().delete(key)])?;
            }
        }
        add(socket, Vec::new())
    }

    /// Stops masquerading those of the addresses that belong to this owner.
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

    /// Reports whether an address of this owner is masqueraded.
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

    /// Builds the table, its chain, and the set with its rule.
    fn make(&self) -> Vec<Message> {
        let key = Type::address(self.family);
        // Multicast is excluded: 224.0.0.0/4 and ff00::/8.
        let many = match self.family {
            Family::V4 => Cidr::new(IpAddr::from([224, 0, 0, 0]), 4),
            Family::V6 => Cidr::new(IpAddr::from([0xff00, 0, 0, 0, 0, 0, 0, 0]), 8),
        };
        let whose = format!("network {}", self.network);
        vec![
            message(self.family, NFT_MSG_NEWTABLE, libc::NLM_F_CREATE),
            base_chain(self.family, POSTROUTING),
            // The set must be new: each set has exactly one rule.
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

/// Stops the masquerading of an owner whose addresses are unknown.
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

/// Returns an owner's elements: the names of the sets, and the keys.
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
