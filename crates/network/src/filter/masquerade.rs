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
use super::nftables::{
    NFNL_MSG_BATCH_BEGIN, NFNL_MSG_BATCH_END, NFT_MSG_NEWCHAIN, NFT_MSG_NEWRULE, NFT_MSG_NEWTABLE,
    NFTA_CHAIN_HOOK, NFTA_CHAIN_NAME, NFTA_CHAIN_TYPE, NFTA_RULE_CHAIN, NFTA_RULE_EXPRESSIONS,
    NFTA_RULE_USERDATA, bound, message_type,
};
use super::rule::{Family, hash_name};
use crate::Cidr;
use crate::cidr::octets;
use crate::netlink::{Attributes, Message, Socket};

/// The pods of one network whose packets to the outside bear the node's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Masquerade {
    family: Family,
    network: String,
    /// Where packets keep their source: the pods' own networks.
    inside: Vec<Cidr>,
    set: String,
}

/// An element's key, and whose it is.
type Element = (Vec<u8>, Vec<u8>);

const TABLE: &str = "orlop";
const CHAIN: &str = "postrouting";
const PREFIX: &str = "masquerade-";
/// Digits of the hash in a set's name.
const DIGITS: usize = 16;

// <linux/netfilter.h>, <linux/netfilter/nf_tables.h>
const NF_INET_POST_ROUTING: u32 = 4;
/// After those of `iptables`: what the administrator has put there comes first.
const PRIORITY: i32 = 101;
const NFT_MSG_NEWSET: u16 = 9;
const NFT_MSG_GETSET: u16 = 10;
const NFT_MSG_NEWSETELEM: u16 = 12;
const NFT_MSG_GETSETELEM: u16 = 13;
const NFT_MSG_DELSETELEM: u16 = 14;
/// The table's name: of tables, chains, rules, sets and lists of elements alike.
const NFTA_TABLE: u16 = 1;
const NFTA_SET_NAME: u16 = 2;
const NFTA_SET_FLAGS: u16 = 3;
const NFTA_SET_KEY_TYPE: u16 = 4;
const NFTA_SET_KEY_LEN: u16 = 5;
const NFTA_SET_ID: u16 = 10;
const NFTA_SET_ELEM_LIST_SET: u16 = 2;
const NFTA_SET_ELEM_LIST_ELEMENTS: u16 = 3;
const NFTA_LIST_ELEM: u16 = 1;
const NFTA_SET_ELEM_KEY: u16 = 1;
const NFTA_SET_ELEM_USERDATA: u16 = 6;
const NFTA_DATA_VALUE: u16 = 1;
/// How the program `nft` numbers the types of keys.
const TYPE_IPV4_ADDR: u32 = 7;
const TYPE_IPV6_ADDR: u32 = 8;

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
        let add = |socket: &mut Socket, first: Vec<Message>| {
            let elements = self.elements(NFT_MSG_NEWSETELEM, libc::NLM_F_EXCL, owner, addresses);
            commit(socket, first.into_iter().chain([elements]).collect())
        };
        let added = add(socket, Vec::new());
        let added = match added {
            // The first of its network.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made = add(socket, self.make());
                // Another program's pod was faster.
                if is_there(&made) {
                    add(socket, Vec::new())
                } else {
                    made
                }
            }
            added => added,
        };
        if !is_there(&added) {
            return added;
        }
        // Left over by a crash, or by one who does not know of them.
        for address in addresses {
            if self.owner_of(socket, *address)?.is_some() {
                let stale = self.elements(NFT_MSG_DELSETELEM, 0, owner, &[*address]);
                commit(socket, vec![stale])?;
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
            let data = comment_data(owner);
            if self.owner_of(socket, *address)? == Some(data) {
                let element = self.elements(NFT_MSG_DELSETELEM, 0, owner, &[*address]);
                commit(socket, vec![element])?;
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
        Ok(self.owner_of(socket, address)? == Some(comment_data(owner)))
    }

    fn owner_of(&self, socket: &mut Socket, address: IpAddr) -> io::Result<Option<Vec<u8>>> {
        let key = octets(address);
        let wanted = self.list(NFT_MSG_GETSETELEM, 0, |list| {
            list.nest(NFTA_LIST_ELEM, |element| {
                element.nest(NFTA_SET_ELEM_KEY, |data| data.attr(NFTA_DATA_VALUE, &key))
            })
        });
        match socket.query(wanted) {
            Ok((_, body)) => Ok(elements_in(&body)
                .into_iter()
                .find(|(found, _)| *found == key)
                .map(|(_, owner)| owner)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The table, its chain, and the set with its rule.
    fn make(&self) -> Vec<Message> {
        let create = libc::NLM_F_CREATE;
        let table = message(self.family, NFT_MSG_NEWTABLE, create);
        let chain = message(self.family, NFT_MSG_NEWCHAIN, create)
            .attr_str(NFTA_CHAIN_NAME, CHAIN)
            .nest(NFTA_CHAIN_HOOK, |hook| {
                hook.attr_be32(1, NF_INET_POST_ROUTING)
                    .attr_be32(2, PRIORITY as u32)
            })
            .attr_str(NFTA_CHAIN_TYPE, "nat");
        let (kind, length) = match self.family {
            Family::V4 => (TYPE_IPV4_ADDR, 4),
            Family::V6 => (TYPE_IPV6_ADDR, 16),
        };
        // Must be new: with a set goes one rule.
        let set = message(self.family, NFT_MSG_NEWSET, create | libc::NLM_F_EXCL)
            .attr_str(NFTA_SET_NAME, &self.set)
            .attr_be32(NFTA_SET_FLAGS, 0)
            .attr_be32(NFTA_SET_KEY_TYPE, kind)
            .attr_be32(NFTA_SET_KEY_LEN, length)
            .attr_be32(NFTA_SET_ID, 1);
        // Not what goes to many: 224.0.0.0/4 and ff00::/8.
        let many = match self.family {
            Family::V4 => Cidr::new(IpAddr::from([224, 0, 0, 0]), 4),
            Family::V6 => Cidr::new(IpAddr::from([0xff00, 0, 0, 0, 0, 0, 0, 0]), 8),
        };
        let rule = message(self.family, NFT_MSG_NEWRULE, create | libc::NLM_F_APPEND)
            .attr_str(NFTA_RULE_CHAIN, CHAIN)
            .nest(NFTA_RULE_EXPRESSIONS, |list| {
                let list = lookup(list, self.family, &self.set);
                let kept = self.inside.iter().copied().chain(many);
                masquerade(kept.fold(list, |list, cidr| {
                    destination(list, cidr, Compare::NotEqual)
                }))
            })
            .attr(
                NFTA_RULE_USERDATA,
                &comment_data(&format!("network {}", self.network)),
            );
        vec![table, chain, set, rule]
    }

    fn elements(&self, kind: u16, flags: i32, owner: &str, addresses: &[IpAddr]) -> Message {
        let flags = if kind == NFT_MSG_NEWSETELEM {
            flags | libc::NLM_F_CREATE
        } else {
            flags
        };
        let data = comment_data(owner);
        self.list(kind, flags, |list| {
            addresses.iter().fold(list, |list, address| {
                list.nest(NFTA_LIST_ELEM, |element| {
                    let key = octets(*address);
                    let element =
                        element.nest(NFTA_SET_ELEM_KEY, |data| data.attr(NFTA_DATA_VALUE, &key));
                    if kind == NFT_MSG_NEWSETELEM {
                        element.attr(NFTA_SET_ELEM_USERDATA, &data)
                    } else {
                        element
                    }
                })
            })
        })
    }

    fn list(&self, kind: u16, flags: i32, fill: impl FnOnce(Message) -> Message) -> Message {
        message(self.family, kind, flags)
            .attr_str(NFTA_SET_ELEM_LIST_SET, &self.set)
            .nest(NFTA_SET_ELEM_LIST_ELEMENTS, fill)
    }
}

/// Ends the masquerading of an owner whose addresses nobody knows any more.
pub(super) fn remove_owner(socket: &mut Socket, family: Family, owner: &str) -> io::Result<()> {
    for (set, key) in of_owner(socket, family, owner)? {
        let element = message(family, NFT_MSG_DELSETELEM, 0)
            .attr_str(NFTA_SET_ELEM_LIST_SET, &set)
            .nest(NFTA_SET_ELEM_LIST_ELEMENTS, |list| {
                list.nest(NFTA_LIST_ELEM, |element| {
                    element.nest(NFTA_SET_ELEM_KEY, |data| data.attr(NFTA_DATA_VALUE, &key))
                })
            });
        commit(socket, vec![element])?;
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
    let sets = match socket.dump(message(family, NFT_MSG_GETSET, 0)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        sets => sets?,
    };
    let mut found = Vec::new();
    for (_, body) in &sets {
        let set = Attributes(body.get(4..).unwrap_or_default());
        let (Some(TABLE), Some(name)) = (set.text(NFTA_TABLE), set.text(NFTA_SET_NAME)) else {
            continue;
        };
        if !name.starts_with(PREFIX) {
            continue;
        }
        let all = message(family, NFT_MSG_GETSETELEM, 0).attr_str(NFTA_SET_ELEM_LIST_SET, name);
        let replies = socket.dump(all)?;
        let elements = replies.iter().flat_map(|(_, body)| elements_in(body));
        let own = elements.filter(|(_, owner)| *owner == data);
        found.extend(own.map(|(key, _)| (name.to_owned(), key)));
    }
    Ok(found)
}

fn elements_in(body: &[u8]) -> Vec<Element> {
    let list = Attributes(body.get(4..).unwrap_or_default());
    let elements = list.inner(NFTA_SET_ELEM_LIST_ELEMENTS).into_iter();
    let parsed = elements.filter_map(|(_, element)| {
        let element = Attributes(element);
        let key = element.inner(NFTA_SET_ELEM_KEY).get(NFTA_DATA_VALUE)?;
        let owner = element.get(NFTA_SET_ELEM_USERDATA).unwrap_or_default();
        Some((key.to_vec(), owner.to_vec()))
    });
    parsed.collect()
}

fn is_there(done: &io::Result<()>) -> bool {
    matches!(done, Err(error) if error.kind() == io::ErrorKind::AlreadyExists)
}

fn commit(socket: &mut Socket, changes: Vec<Message>) -> io::Result<()> {
    let Some(last) = changes.len().checked_sub(1) else {
        return Ok(());
    };
    let changes = changes.into_iter().enumerate();
    let mut batch = vec![(bound(NFNL_MSG_BATCH_BEGIN), false)];
    batch.extend(changes.map(|(index, change)| (change, index == last)));
    batch.push((bound(NFNL_MSG_BATCH_END), false));
    socket.transact(batch)
}

/// A message about the table.
fn message(family: Family, kind: u16, flags: i32) -> Message {
    Message::new(message_type(kind), flags)
        .fixed(&[family.number(), 0, 0, 0])
        .attr_str(NFTA_TABLE, TABLE)
}
