//! The table `orlop`, in native nf_tables form. Its sets and maps have an element per pod, with a comment that names
//! the owner.

use std::io;

use super::expression::comment_data;
use super::nftables::{
    NFT_MSG_NEWCHAIN, NFT_MSG_NEWRULE, NFTA_CHAIN_HOOK, NFTA_CHAIN_NAME, NFTA_CHAIN_TYPE,
    NFTA_RULE_CHAIN, NFTA_RULE_EXPRESSIONS, NFTA_RULE_USERDATA, message_type,
};
use super::rule::Family;
use crate::netlink::{Attributes, Message, Socket};

/// A set, or a map if its elements have values.
#[derive(Debug, Clone, Copy)]
pub(super) struct Set<'a> {
    pub(super) family: Family,
    pub(super) name: &'a str,
}

/// An element found: its key, and its owner.
pub(super) type Found = (Vec<u8>, Vec<u8>);

/// The type of keys or values, numbered as the program `nft` does. A concatenation packs several types into one
/// number; each fills whole words.
#[derive(Debug, Clone, Copy)]
pub(super) struct Type {
    number: u32,
    length: u32,
}

/// The chain for outgoing packets; [`base_chain`] defines its hook and priority.
pub(super) const POSTROUTING: &str = "postrouting";

const TABLE: &str = "orlop";

// <linux/netfilter.h>, <linux/netfilter/nf_tables.h>
const NF_INET_PRE_ROUTING: u32 = 0;
const NF_INET_LOCAL_OUT: u32 = 3;
const NF_INET_POST_ROUTING: u32 = 4;
const NFT_MSG_NEWSET: u16 = 9;
const NFT_MSG_GETSET: u16 = 10;
const NFT_MSG_NEWSETELEM: u16 = 12;
const NFT_MSG_GETSETELEM: u16 = 13;
const NFT_MSG_DELSETELEM: u16 = 14;
/// The attribute of the table's name: the same for tables, chains, rules, sets and lists of elements.
const NFTA_TABLE: u16 = 1;
const NFTA_SET_NAME: u16 = 2;
const NFTA_SET_FLAGS: u16 = 3;
const NFTA_SET_KEY_TYPE: u16 = 4;
const NFTA_SET_KEY_LEN: u16 = 5;
const NFTA_SET_DATA_TYPE: u16 = 6;
const NFTA_SET_DATA_LEN: u16 = 7;
const NFTA_SET_ID: u16 = 10;
const NFT_SET_MAP: u32 = 8;
const NFTA_SET_ELEM_LIST_SET: u16 = 2;
const NFTA_SET_ELEM_LIST_ELEMENTS: u16 = 3;
const NFTA_LIST_ELEM: u16 = 1;
const NFTA_SET_ELEM_KEY: u16 = 1;
const NFTA_SET_ELEM_DATA: u16 = 2;
const NFTA_SET_ELEM_USERDATA: u16 = 6;
const NFTA_DATA_VALUE: u16 = 1;
/// Number of bits for each type in a concatenation.
const TYPE_BITS: u32 = 6;

impl Type {
    pub(super) const PROTOCOL: Self = Self::new(12, 4);
    pub(super) const PORT: Self = Self::new(13, 4);

    const fn new(number: u32, length: u32) -> Self {
        Self { number, length }
    }

    /// Returns the type of an address of a family.
    pub(super) fn address(family: Family) -> Self {
        match family {
            Family::V4 => Self::new(7, 4),
            Family::V6 => Self::new(8, 16),
        }
    }

    /// Returns the concatenation of this type and `next`.
    pub(super) fn then(self, next: Self) -> Self {
        Self {
            number: self.number << TYPE_BITS | next.number,
            length: self.length + next.length,
        }
    }
}

impl Set<'_> {
    /// Builds the message that creates the set; with [`libc::NLM_F_EXCL`] it must be new.
    pub(super) fn make(self, number: u32, flags: i32, key: Type, value: Option<Type>) -> Message {
        let kind = if value.is_some() { NFT_SET_MAP } else { 0 };
        let set = message(self.family, NFT_MSG_NEWSET, libc::NLM_F_CREATE | flags)
            .attr_str(NFTA_SET_NAME, self.name)
            .attr_be32(NFTA_SET_FLAGS, kind)
            .attr_be32(NFTA_SET_KEY_TYPE, key.number)
            .attr_be32(NFTA_SET_KEY_LEN, key.length)
            .attr_be32(NFTA_SET_ID, number);
        match value {
            Some(value) => set
                .attr_be32(NFTA_SET_DATA_TYPE, value.number)
                .attr_be32(NFTA_SET_DATA_LEN, value.length),
            None => set,
        }
    }

    /// Adds elements of an owner, none of which may exist: keys, and values in a map.
    pub(super) fn add<'k>(
        self,
        owner: &str,
        elements: impl IntoIterator<Item = (&'k [u8], Option<&'k [u8]>)>,
    ) -> Message {
        let owner = comment_data(owner);
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        self.list(NFT_MSG_NEWSETELEM, flags, |list| {
            elements.into_iter().fold(list, |list, (key, value)| {
                list.nest(NFTA_LIST_ELEM, |element| {
                    let element = keyed(element, key);
                    let element = match value {
                        Some(value) => element
                            .nest(NFTA_SET_ELEM_DATA, |data| data.attr(NFTA_DATA_VALUE, value)),
                        None => element,
                    };
                    element.attr(NFTA_SET_ELEM_USERDATA, &owner)
                })
            })
        })
    }

    /// Removes an element, which must exist.
    pub(super) fn delete(self, key: &[u8]) -> Message {
        self.list(NFT_MSG_DELSETELEM, 0, |list| {
            list.nest(NFTA_LIST_ELEM, |element| keyed(element, key))
        })
    }

    /// Returns the comment of an element, if it exists.
    pub(super) fn owner_of(self, socket: &mut Socket, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let wanted = self.list(NFT_MSG_GETSETELEM, 0, |list| {
            list.nest(NFTA_LIST_ELEM, |element| keyed(element, key))
        });
        match socket.query(wanted) {
            Ok((_, body)) => Ok(elements_in(&body)
                .into_iter()
                .find(|(found, _)| found == key)
                .map(|(_, owner)| owner)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns all elements of the set.
    pub(super) fn all(self, socket: &mut Socket) -> io::Result<Vec<Found>> {
        let all =
            message(self.family, NFT_MSG_GETSETELEM, 0).attr_str(NFTA_SET_ELEM_LIST_SET, self.name);
        let replies = socket.dump(all)?;
        let elements = replies.iter().flat_map(|(_, body)| elements_in(body));
        Ok(elements.collect())
    }

    fn list(self, kind: u16, flags: i32, fill: impl FnOnce(Message) -> Message) -> Message {
        message(self.family, kind, flags)
            .attr_str(NFTA_SET_ELEM_LIST_SET, self.name)
            .nest(NFTA_SET_ELEM_LIST_ELEMENTS, fill)
    }
}

/// Lists the sets whose names begin with `prefix`.
pub(super) fn sets(socket: &mut Socket, family: Family, prefix: &str) -> io::Result<Vec<String>> {
    let sets = match socket.dump(message(family, NFT_MSG_GETSET, 0)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        sets => sets?,
    };
    let names = sets.iter().filter_map(|(_, body)| {
        let set = Attributes(body.get(4..)?);
        let name = set.text(NFTA_SET_NAME)?;
        // Older kernels do not filter the list.
        (set.text(NFTA_TABLE)? == TABLE && name.starts_with(prefix)).then(|| name.to_owned())
    });
    Ok(names.collect())
}

/// Builds a NAT base chain for arriving, locally sent or leaving packets. It runs after the chains of `iptables`: the
/// administrator's rules come first.
pub(super) fn base_chain(family: Family, name: &str) -> Message {
    let (hook, priority): (u32, i32) = match name {
        "prerouting" => (NF_INET_PRE_ROUTING, -99),
        "output" => (NF_INET_LOCAL_OUT, -99),
        _ => (NF_INET_POST_ROUTING, 101),
    };
    chain(family, name, 0)
        .nest(NFTA_CHAIN_HOOK, |at| {
            at.attr_be32(1, hook).attr_be32(2, priority as u32)
        })
        .attr_str(NFTA_CHAIN_TYPE, "nat")
}

/// Builds the message that creates a chain; with [`libc::NLM_F_EXCL`] it must be new.
pub(super) fn chain(family: Family, name: &str, flags: i32) -> Message {
    message(family, NFT_MSG_NEWCHAIN, libc::NLM_F_CREATE | flags).attr_str(NFTA_CHAIN_NAME, name)
}

/// Builds a rule at a chain's end, with a comment.
pub(super) fn rule(
    family: Family,
    chain: &str,
    comment: &str,
    fill: impl FnOnce(Message) -> Message,
) -> Message {
    let flags = libc::NLM_F_CREATE | libc::NLM_F_APPEND;
    message(family, NFT_MSG_NEWRULE, flags)
        .attr_str(NFTA_RULE_CHAIN, chain)
        .nest(NFTA_RULE_EXPRESSIONS, fill)
        .attr(NFTA_RULE_USERDATA, &comment_data(comment))
}

/// Reports whether an object that should be new already exists.
pub(super) fn is_there(done: &io::Result<()>) -> bool {
    // The kernel reports EBUSY for an existing map element with another value.
    let there = [libc::EEXIST, libc::EBUSY].map(Some);
    matches!(done, Err(error) if there.contains(&error.raw_os_error()))
}

/// Reports whether an object does not exist.
pub(super) fn is_missing(done: &io::Result<()>) -> bool {
    matches!(done, Err(error) if error.kind() == io::ErrorKind::NotFound)
}

/// Creates a message about the table.
pub(super) fn message(family: Family, kind: u16, flags: i32) -> Message {
    Message::new(message_type(kind), flags)
        .fixed(&[family.number(), 0, 0, 0])
        .attr_str(NFTA_TABLE, TABLE)
}

fn keyed(element: Message, key: &[u8]) -> Message {
    element.nest(NFTA_SET_ELEM_KEY, |data| data.attr(NFTA_DATA_VALUE, key))
}

fn elements_in(body: &[u8]) -> Vec<Found> {
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
