//! Port mapping with maps: one map lookup leads a packet from a host port to a pod.
//!
//! ```text
//! table ip orlop {
//!     map hostports { type inet_proto . inet_service : ipv4_addr . inet_service
//!         elements = { tcp . 8080 comment "POD eth0" : 10.88.0.7 . 80, … } }
//!     map hostports-at { type inet_proto . ipv4_addr . inet_service : ipv4_addr . inet_service }
//!     set marked-1f2e… { type inet_proto . inet_service; elements = { tcp . 8080 comment "POD eth0", … } }
//!     set marked-at-1f2e… { type inet_proto . ipv4_addr . inet_service }
//!     chain hostport-marks {
//!         ip saddr 10.88.0.0/16 meta l4proto . th dport @marked-1f2e… meta mark set meta mark | 0x2000
//!         ip saddr 127.0.0.1 …
//!     }
//!     chain hostports {
//!         jump hostport-marks
//!         dnat ip to meta l4proto . ip daddr . th dport map @hostports-at
//!         dnat ip to meta l4proto . th dport map @hostports
//!     }
//!     chain prerouting { type nat hook prerouting priority dstnat + 1; fib daddr type local jump hostports }
//!     chain output { type nat hook output priority -99; fib daddr type local jump hostports }
//!     chain postrouting { …; meta mark & 0x2000 == 0x2000 masquerade }
//! }
//! ```
//!
//! Sets hold the ports whose answers must return through the node, instead of a map of verdicts: for a new element
//! with a jump, the kernel would walk the whole table.

use std::io;
use std::net::IpAddr;

use super::expression::{
    self, comment_data, destination_nat, lookup_port, mark, marked, masquerade, source,
    to_this_node,
};
use super::nftables::{NFT_MSG_NEWTABLE, commit};
use super::own_table::{
    POSTROUTING, Set, Type, base_chain, chain, is_missing, is_there, message, rule, sets,
};
use super::rule::{Family, hash_name};
use crate::cidr::octets;
use crate::netlink::{Message, Socket};
use crate::{Cidr, PortMapping, Protocol};

/// Host ports of one family that lead to one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PortMaps {
    family: Family,
    owner: String,
    ports: Vec<Port>,
}

/// Sources whose packets to mapped ports are masqueraded, so that the answers return through the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Detour<'a> {
    /// The network's name.
    pub(crate) network: &'a str,
    /// Neighbours of the pod, which would otherwise receive its answers directly.
    pub(crate) inside: Cidr,
    /// Whether this applies to all other sources, too.
    pub(crate) everyone: bool,
    /// The bits of a packet's mark that request masquerading.
    pub(crate) mark: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Port {
    protocol: Protocol,
    /// The node address; all addresses if `None`.
    at: Option<IpAddr>,
    number: u16,
    /// The port of the pod.
    to: u16,
}

const CHAIN: &str = "hostports";
const MARKS: &str = "hostport-marks";
/// The map of ports on all addresses, and the map of ports on one address.
const MAPS: [&str; 2] = ["hostports", "hostports-at"];
/// Prefixes of the names of their sets. Names with the second prefix also begin with the first.
const MARKED: [&str; 2] = ["marked-", "marked-at-"];
/// Number of hash digits in a set's name.
const DIGITS: usize = 16;
/// Maximum number of elements per attribute, which is limited to 64 kB.
const ELEMENTS_AT_ONCE: usize = 256;
const COMMENT: &str = "mapped ports";

impl PortMaps {
    /// Creates the mappings of one family for an owner, `CONTAINER INTERFACE`.
    pub(crate) fn new(family: Family, owner: String, mappings: &[PortMapping]) -> Self {
        let mut ports: Vec<Port> = Vec::new();
        for mapping in mappings {
            if mapping.host_ip.is_some_and(|ip| Family::of(ip) != family) {
                continue;
            }
            let port = Port {
                protocol: mapping.protocol,
                at: mapping.host_ip.filter(|ip| !ip.is_unspecified()),
                number: mapping.host_port,
                to: mapping.container_port,
            };
            // The first of two conflicting mappings wins.
            if !ports.iter().any(|earlier| earlier.covers(&port)) {
                ports.push(port);
            }
        }
        Self {
            family,
            owner,
            ports,
        }
    }

    /// Maps the ports to the pod.
    pub(super) fn add(
        &self,
        socket: &mut Socket,
        to: IpAddr,
        detour: Option<&Detour<'_>>,
    ) -> io::Result<()> {
        let mut ports: Vec<&Port> = self.ports.iter().collect();
        // The first pod of a network finds no table, and a later try can find leftover elements.
        for _ in 0..2 {
            let added = self.insert(socket, &ports, to, detour);
            if is_missing(&added) {
                self.make(socket, detour)?;
            } else if is_there(&added) {
                ports = self.take_over(socket)?;
            } else {
                return added;
            }
        }
        self.insert(socket, &ports, to, detour)
    }

    /// Removes the mappings that belong to this owner.
    pub(super) fn remove(&self, socket: &mut Socket) -> io::Result<()> {
        let mut own = Vec::new();
        for port in &self.ports {
            if self.stands(socket, port)? {
                own.push(port);
            }
        }
        self.delete(socket, &own)
    }

    /// Reports whether any of the ports leads to this owner.
    pub(super) fn any_stands(&self, socket: &mut Socket) -> io::Result<bool> {
        for port in &self.ports {
            if self.stands(socket, port)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reports whether all of the ports lead to the owner's pod.
    pub(super) fn all_stand(&self, socket: &mut Socket) -> io::Result<bool> {
        for port in &self.ports {
            let holder = self.holder(socket, port)?;
            if !holder.is_some_and(|holder| self.is_same_pod(&holder)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn insert(
        &self,
        socket: &mut Socket,
        ports: &[&Port],
        to: IpAddr,
        detour: Option<&Detour<'_>>,
    ) -> io::Result<()> {
        let mut changes = Vec::new();
        for (kind, map) in MAPS.into_iter().enumerate() {
            let of_kind = ports.iter().filter(|port| port.kind() == kind);
            let elements: Vec<_> = of_kind.map(|port| (port.key(), port.value(to))).collect();
            for some in elements.chunks(ELEMENTS_AT_ONCE) {
                let valued = some.iter().map(|(key, to)| (&key[..], Some(&to[..])));
                changes.push(self.set(map).add(&self.owner, valued));
                if let Some(detour) = detour {
                    let name = detour.set(kind);
                    let keys = some.iter().map(|(key, _)| (&key[..], None));
                    changes.push(self.set(&name).add(&self.owner, keys));
                }
            }
        }
        commit(socket, changes)
    }

    /// Removes leftover elements at the ports, from a crash or from another program. Returns the ports to add: all
    /// except those that the same pod has on another network, because the first network wins.
    fn take_over(&self, socket: &mut Socket) -> io::Result<Vec<&Port>> {
        let owner = comment_data(&self.owner);
        let mut free = Vec::new();
        for port in &self.ports {
            let holder = self.holder(socket, port)?;
            if !holder.is_some_and(|other| other != owner && self.is_same_pod(&other)) {
                free.push(port);
            }
        }
        self.delete(socket, &free)?;
        Ok(free)
    }

    /// Removes the ports from the maps and from all sets that contain them.
    fn delete(&self, socket: &mut Socket, ports: &[&Port]) -> io::Result<()> {
        if ports.is_empty() {
            return Ok(());
        }
        let marked = sets(socket, self.family, MARKED[0])?;
        let mut changes = Vec::new();
        for port in ports {
            let kind = port.kind();
            let of_kind = marked
                .iter()
                .filter(|name| name.starts_with(MARKED[1]) == (kind == 1));
            for name in of_kind.map(String::as_str).chain([MAPS[kind]]) {
                let (set, key) = (self.set(name), port.key());
                if set.owner_of(socket, &key)?.is_some() {
                    changes.push(set.delete(&key));
                }
            }
        }
        commit(socket, changes)
    }

    fn stands(&self, socket: &mut Socket, port: &Port) -> io::Result<bool> {
        Ok(self.holder(socket, port)? == Some(comment_data(&self.owner)))
    }

    fn holder(&self, socket: &mut Socket, port: &Port) -> io::Result<Option<Vec<u8>>> {
        let map = self.set(MAPS[port.kind()]);
        map.owner_of(socket, &port.key())
    }

    /// Reports whether a comment names this pod, on any network.
    fn is_same_pod(&self, comment: &[u8]) -> bool {
        let pod = self.owner.split_inclusive(' ').next().unwrap_or_default();
        // Skips the type and the length.
        let text = comment.get(2..).unwrap_or_default();
        text.starts_with(pod.as_bytes())
    }

    /// Creates the shared table, and the sets of the network.
    fn make(&self, socket: &mut Socket, detour: Option<&Detour<'_>>) -> io::Result<()> {
        let shared = commit(socket, self.shared());
        if !is_there(&shared) {
            shared?;
        }
        let Some(detour) = detour else { return Ok(()) };
        let marks = commit(socket, self.marks(detour));
        // Another pod created them first.
        if is_there(&marks) { Ok(()) } else { marks }
    }

    fn shared(&self) -> Vec<Message> {
        let family = self.family;
        let value = Type::address(family).then(Type::PORT);
        let map = |kind: usize| {
            let key = key_type(family, kind);
            self.set(MAPS[kind])
                .make(1 + kind as u32, 0, key, Some(value))
        };
        let lead = |kind: usize| {
            rule(family, CHAIN, COMMENT, |list| {
                let list = lookup_port(list, family, kind == 1, MAPS[kind], true);
                destination_nat(list, family)
            })
        };
        let enter = |from: &str| {
            rule(family, from, COMMENT, |list| {
                expression::jump(to_this_node(list), CHAIN)
            })
        };
        vec![
            message(family, NFT_MSG_NEWTABLE, libc::NLM_F_CREATE),
            base_chain(family, "prerouting"),
            base_chain(family, "output"),
            base_chain(family, POSTROUTING),
            map(0),
            map(1),
            chain(family, MARKS, 0),
            // The chain must be new, because its rules are added with it.
            chain(family, CHAIN, libc::NLM_F_EXCL),
            rule(family, CHAIN, COMMENT, |list| expression::jump(list, MARKS)),
            lead(1),
            lead(0),
            enter("prerouting"),
            enter("output"),
        ]
    }

    fn marks(&self, detour: &Detour<'_>) -> Vec<Message> {
        let family = self.family;
        let comment = format!("{COMMENT} of network {}", detour.network);
        let sources: Vec<Option<Cidr>> = match (detour.everyone, family) {
            (true, _) => vec![None],
            (false, Family::V4) => {
                let loopback = Cidr::host([127, 0, 0, 1].into());
                vec![Some(detour.inside), Some(loopback)]
            }
            (false, Family::V6) => vec![Some(detour.inside)],
        };
        let mut changes = Vec::new();
        for kind in 0..MARKED.len() {
            let name = detour.set(kind);
            let key = key_type(family, kind);
            // The set must be new, because its rules are added with it.
            let set = self.set(&name);
            changes.push(set.make(1 + kind as u32, libc::NLM_F_EXCL, key, None));
            changes.extend(sources.iter().map(|from| {
                rule(family, MARKS, &comment, |list| {
                    let list = match from {
                        Some(from) => source(list, *from),
                        None => list,
                    };
                    let list = lookup_port(list, family, kind == 1, &name, false);
                    mark(list, detour.mark)
                })
            }));
        }
        changes.push(rule(family, POSTROUTING, &comment, |list| {
            masquerade(marked(list, detour.mark))
        }));
        changes
    }

    fn set<'n>(&self, name: &'n str) -> Set<'n> {
        Set {
            family: self.family,
            name,
        }
    }
}

impl Detour<'_> {
    fn set(&self, kind: usize) -> String {
        let what = format!("{} {} {:x}", self.inside, self.everyone, self.mark);
        let mut name = hash_name(MARKED[kind], self.network, &what);
        name.truncate(MARKED[kind].len() + DIGITS);
        name
    }
}

impl Port {
    /// Returns the index of the port's map.
    fn kind(&self) -> usize {
        usize::from(self.at.is_some())
    }

    fn covers(&self, other: &Self) -> bool {
        self.protocol == other.protocol
            && self.number == other.number
            && (self.at.is_none() || self.at == other.at)
    }

    fn key(&self) -> Vec<u8> {
        let mut key = vec![self.protocol.number(), 0, 0, 0];
        key.extend(self.at.into_iter().flat_map(octets));
        key.extend(in_a_word(self.number));
        key
    }

    fn value(&self, address: IpAddr) -> Vec<u8> {
        let mut value = octets(address);
        value.extend(in_a_word(self.to));
        value
    }
}

fn in_a_word(port: u16) -> [u8; 4] {
    let [high, low] = port.to_be_bytes();
    [high, low, 0, 0]
}

fn key_type(family: Family, kind: usize) -> Type {
    match kind {
        0 => Type::PROTOCOL.then(Type::PORT),
        _ => Type::PROTOCOL.then(Type::address(family)).then(Type::PORT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(at: Option<&str>, host_port: u16, container_port: u16) -> PortMapping {
        PortMapping {
            host_port,
            container_port,
            protocol: Protocol::Tcp,
            host_ip: at.map(|ip| ip.parse().unwrap()),
        }
    }

    #[test]
    fn of_two_mappings_of_a_port_the_first_counts() {
        let leads = |mappings: &[PortMapping]| {
            let maps = PortMaps::new(Family::V4, "a eth0".into(), mappings);
            maps.ports.iter().map(|port| port.to).collect::<Vec<_>>()
        };
        let all = mapping(None, 80, 1);
        let every = mapping(Some("0.0.0.0"), 80, 2);
        let one = mapping(Some("127.0.0.1"), 80, 3);
        let v6 = mapping(Some("::"), 80, 4);
        assert_eq!(leads(&[all.clone(), every.clone(), one.clone()]), [1]);
        assert_eq!(leads(&[one, v6, every, all]), [3, 2]);
    }

    #[test]
    fn keys_fill_whole_words() {
        let maps = PortMaps::new(
            Family::V4,
            "a eth0".into(),
            &[mapping(Some("10.0.0.1"), 80, 8080)],
        );
        let port = &maps.ports[0];
        assert_eq!(port.key(), [6, 0, 0, 0, 10, 0, 0, 1, 0, 80, 0, 0]);
        assert_eq!(
            port.value([10, 88, 0, 7].into()),
            [10, 88, 0, 7, 31, 144, 0, 0]
        );
    }
}
