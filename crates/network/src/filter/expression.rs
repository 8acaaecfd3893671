//! Rules encoded for the kernel's nf_tables. The encoding is that of the nf_tables `iptables`, which therefore shows
//! and finds these rules as its own.

use super::rule::{Family, Match, Rule, Target};
use crate::cidr::octets;
use crate::netlink::Message;
use crate::{Cidr, Protocol};

// <linux/netfilter/nf_tables.h>
const NFTA_LIST_ELEM: u16 = 1;
const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
const NFT_REG_VERDICT: u32 = 0;
const NFT_REG_1: u32 = 1;
const NFT_PAYLOAD_NETWORK_HEADER: u32 = 1;
const NFT_PAYLOAD_TRANSPORT_HEADER: u32 = 2;
/// The first register, numbered in 32-bit words.
const NFT_REG32_00: u32 = 8;
const NFT_META_MARK: u32 = 3;
const NFT_META_L4PROTO: u32 = 16;
const NFT_JUMP: u32 = -3_i32 as u32;
const NF_ACCEPT: u32 = 1;
const NFT_FIB_RESULT_ADDRTYPE: u32 = 3;
const NFTA_FIB_F_DADDR: u32 = 2;
const RTN_LOCAL: u32 = 2;
const NFT_NAT_DNAT: u32 = 1;

/// The operator of a comparison.
#[derive(Clone, Copy)]
pub(super) enum Compare {
    Equal = 0,
    NotEqual = 1,
}

/// Writes a rule's expressions into an attribute's payload.
pub(super) fn encode(message: Message, family: Family, rule: &Rule) -> Message {
    // `iptables` expects the protocol before the matches that depend on it.
    let mut message = message;
    if let Some(protocol) = protocol_of(rule) {
        message = l4_protocol(message, protocol);
    }
    for condition in &rule.matches {
        message = encode_match(message, condition);
    }
    let message = element(message, "counter", |data| {
        data.attr_be64(1, 0).attr_be64(2, 0)
    });
    encode_target(message, family, &rule.target)
}

/// Returns the protocol of a rule; x_tables extensions receive it outside the expressions.
pub(super) fn protocol_of(rule: &Rule) -> Option<Protocol> {
    rule.matches.iter().find_map(|condition| match condition {
        Match::Port(protocol, _) | Match::Ports(protocol, _) => Some(*protocol),
        _ => None,
    })
}

/// Returns a rule's comment in the form of user data.
pub(super) fn comment_of(rule: &Rule) -> Option<Vec<u8>> {
    rule.matches.iter().find_map(|condition| match condition {
        Match::Comment(text) => Some(comment_data(text)),
        _ => None,
    })
}

/// Encodes a comment as a rule's user data: a list of type, length and value. Type 0 is a comment with its final NUL.
pub(super) fn comment_data(text: &str) -> Vec<u8> {
    let text = text.as_bytes();
    let length = text.len().min(254);
    let mut data = vec![0, length as u8 + 1];
    data.extend_from_slice(&text[..length]);
    data.push(0);
    data
}

/// Matches packets whose source address is in a set.
pub(super) fn lookup(message: Message, family: Family, set: &str) -> Message {
    let (offset, length) = match family {
        Family::V4 => (12, 4),
        Family::V6 => (8, 16),
    };
    let message = payload(message, NFT_PAYLOAD_NETWORK_HEADER, offset, length);
    element(message, "lookup", |data| {
        data.attr_str(1, set).attr_be32(2, NFT_REG_1)
    })
}

/// Looks up a packet's protocol and destination port in a set or a map. With `at_address` the key has the destination
/// address between them.
pub(super) fn lookup_port(
    message: Message,
    family: Family,
    at_address: bool,
    set: &str,
    is_map: bool,
) -> Message {
    let message = meta(message, NFT_META_L4PROTO);
    let (offset, length) = match family {
        Family::V4 => (16, 4),
        Family::V6 => (24, 16),
    };
    let mut word = NFT_REG32_00 + 1;
    let message = if at_address {
        let message = load(message, word, NFT_PAYLOAD_NETWORK_HEADER, offset, length);
        word += length / 4;
        message
    } else {
        message
    };
    let message = load(message, word, NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2);
    element(message, "lookup", |data| {
        let data = data.attr_str(1, set).attr_be32(2, NFT_REG_1);
        if is_map {
            data.attr_be32(3, NFT_REG_1)
        } else {
            data
        }
    })
}

/// Sends packets to the address and port that a map lookup returned.
pub(super) fn destination_nat(message: Message, family: Family) -> Message {
    let port = match family {
        Family::V4 => NFT_REG32_00 + 1,
        Family::V6 => NFT_REG32_00 + 4,
    };
    element(message, "nat", |data| {
        data.attr_be32(1, NFT_NAT_DNAT)
            .attr_be32(2, u32::from(family.number()))
            .attr_be32(3, NFT_REG_1)
            .attr_be32(5, port)
    })
}

/// Matches only packets to addresses of this node.
pub(super) fn to_this_node(message: Message) -> Message {
    let message = element(message, "fib", |data| {
        data.attr_be32(1, NFT_REG_1)
            .attr_be32(2, NFT_FIB_RESULT_ADDRTYPE)
            .attr_be32(3, NFTA_FIB_F_DADDR)
    });
    compare(message, &RTN_LOCAL.to_ne_bytes(), Compare::Equal)
}

/// Sets bits of a packet's mark.
pub(super) fn mark(message: Message, bits: u32) -> Message {
    let message = meta(message, NFT_META_MARK);
    let message = mixed(message, &(!bits).to_ne_bytes(), &bits.to_ne_bytes());
    element(message, "meta", |data| {
        data.attr_be32(2, NFT_META_MARK).attr_be32(3, NFT_REG_1)
    })
}

/// Matches packets whose mark has all of the bits set.
pub(super) fn marked(message: Message, bits: u32) -> Message {
    let message = masked(meta(message, NFT_META_MARK), &bits.to_ne_bytes());
    compare(message, &bits.to_ne_bytes(), Compare::Equal)
}

pub(super) fn jump(message: Message, chain: &str) -> Message {
    verdict(message, |code| {
        code.attr_be32(1, NFT_JUMP).attr_str(2, chain)
    })
}

/// Matches a packet's source against a network.
pub(super) fn source(message: Message, cidr: Cidr) -> Message {
    address(message, cidr, true, Compare::Equal)
}

/// Matches a packet's destination against a network.
pub(super) fn destination(message: Message, cidr: Cidr, how: Compare) -> Message {
    address(message, cidr, false, how)
}

/// Replaces the source of packets with the address of the outgoing interface.
pub(super) fn masquerade(message: Message) -> Message {
    element(message, "masq", |data| data)
}

fn encode_match(message: Message, condition: &Match) -> Message {
    match condition {
        Match::Source(cidr) => address(message, *cidr, true, Compare::Equal),
        Match::Destination(cidr) => address(message, *cidr, false, Compare::Equal),
        Match::NotDestination(cidr) => address(message, *cidr, false, Compare::NotEqual),
        Match::Port(Protocol::Sctp, port) => extension(message, "sctp", 0, &sctp_info(*port)),
        Match::Port(_, port) => {
            let message = payload(message, NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2);
            compare(message, &port.to_be_bytes(), Compare::Equal)
        }
        Match::Ports(_, ports) => extension(message, "multiport", 1, &multiport_info(ports)),
        Match::ToThisNode => {
            // struct xt_addrtype_info_v1: source, dest, flags; 4 is LOCAL.
            extension(message, "addrtype", 1, &[0, 0, 4, 0, 0, 0, 0, 0])
        }
        Match::Marked(bits) => marked(message, *bits),
        Match::Established => extension(message, "conntrack", 3, &conntrack_info()),
        // Comments are user data of the rule, see `comment_of`.
        Match::Comment(_) => message,
    }
}

fn encode_target(message: Message, family: Family, target: &Target) -> Message {
    match target {
        Target::Accept => verdict(message, |code| code.attr_be32(1, NF_ACCEPT)),
        Target::Jump(chain) => jump(message, chain),
        Target::Masquerade => match family {
            // struct nf_nat_ipv4_multi_range_compat with one empty range.
            Family::V4 => {
                let mut info = [0; 24];
                info[..4].copy_from_slice(&1_u32.to_ne_bytes());
                target_extension(message, "MASQUERADE", 0, &info)
            }
            // struct nf_nat_range, empty.
            Family::V6 => target_extension(message, "MASQUERADE", 0, &[0; 40]),
        },
        Target::DestinationNat(to, port) => {
            // struct nf_nat_range2: flags (MAP_IPS and PROTO_SPECIFIED), min
            // and max address, min, max and base port.
            let mut info = [0; 48];
            info[..4].copy_from_slice(&3_u32.to_ne_bytes());
            let bytes = octets(*to);
            info[4..4 + bytes.len()].copy_from_slice(&bytes);
            info[20..20 + bytes.len()].copy_from_slice(&bytes);
            info[36..38].copy_from_slice(&port.to_be_bytes());
            info[38..40].copy_from_slice(&port.to_be_bytes());
            target_extension(message, "DNAT", 2, &info)
        }
        Target::Mark(bits) => {
            // struct xt_mark_tginfo2: mark, mask.
            let mut info = [0; 8];
            info[..4].copy_from_slice(&bits.to_ne_bytes());
            info[4..].copy_from_slice(&bits.to_ne_bytes());
            target_extension(message, "MARK", 2, &info)
        }
    }
}

fn l4_protocol(message: Message, protocol: Protocol) -> Message {
    compare(
        meta(message, NFT_META_L4PROTO),
        &[protocol.number()],
        Compare::Equal,
    )
}

/// Matches a packet's address against a network.
fn address(message: Message, cidr: Cidr, source: bool, how: Compare) -> Message {
    // Offsets of the addresses in the IP headers.
    let offset = match (cidr.is_ipv4(), source) {
        (true, true) => 12,
        (true, false) => 16,
        (false, true) => 8,
        (false, false) => 24,
    };
    let bytes = octets(cidr.network().address());
    let prefix = usize::from(cidr.prefix());
    if prefix == 0 {
        return message;
    }
    if prefix.is_multiple_of(8) {
        let length = prefix / 8;
        let message = payload(message, NFT_PAYLOAD_NETWORK_HEADER, offset, length as u32);
        return compare(message, &bytes[..length], how);
    }
    let mask: Vec<u8> = (0..bytes.len())
        .map(|index| {
            let bits = prefix.saturating_sub(index * 8).min(8);
            !(0xff_u16 >> bits) as u8
        })
        .collect();
    let message = payload(
        message,
        NFT_PAYLOAD_NETWORK_HEADER,
        offset,
        bytes.len() as u32,
    );
    compare(masked(message, &mask), &bytes, how)
}

pub(super) fn payload(message: Message, base: u32, offset: u32, length: u32) -> Message {
    load(message, NFT_REG_1, base, offset, length)
}

fn load(message: Message, register: u32, base: u32, offset: u32, length: u32) -> Message {
    element(message, "payload", |data| {
        data.attr_be32(1, register)
            .attr_be32(2, base)
            .attr_be32(3, offset)
            .attr_be32(4, length)
    })
}

pub(super) fn meta(message: Message, key: u32) -> Message {
    element(message, "meta", |data| {
        data.attr_be32(2, key).attr_be32(1, NFT_REG_1)
    })
}

fn masked(message: Message, mask: &[u8]) -> Message {
    mixed(message, mask, &vec![0; mask.len()])
}

/// Applies a mask to the register, then inverts the bits in `turned`.
fn mixed(message: Message, mask: &[u8], turned: &[u8]) -> Message {
    let length = mask.len() as u32;
    element(message, "bitwise", |data| {
        data.attr_be32(1, NFT_REG_1)
            .attr_be32(2, NFT_REG_1)
            .attr_be32(3, length)
            .nest(4, |value| value.attr(1, mask))
            .nest(5, |value| value.attr(1, turned))
    })
}

pub(super) fn compare(message: Message, value: &[u8], how: Compare) -> Message {
    element(message, "cmp", |data| {
        data.attr_be32(1, NFT_REG_1)
            .attr_be32(2, how as u32)
            .nest(3, |data| data.attr(1, value))
    })
}

pub(super) fn verdict(message: Message, fill: impl FnOnce(Message) -> Message) -> Message {
    element(message, "immediate", |data| {
        data.attr_be32(1, NFT_REG_VERDICT)
            .nest(2, |data| data.nest(2, fill))
    })
}

/// Adds an x_tables match, which nf_tables runs.
fn extension(message: Message, name: &str, revision: u32, info: &[u8]) -> Message {
    element(message, "match", |data| {
        data.attr_str(1, name).attr_be32(2, revision).attr(3, info)
    })
}

/// Adds an x_tables target, which nf_tables runs.
fn target_extension(message: Message, name: &str, revision: u32, info: &[u8]) -> Message {
    element(message, "target", |data| {
        data.attr_str(1, name).attr_be32(2, revision).attr(3, info)
    })
}

fn element(message: Message, name: &str, fill: impl FnOnce(Message) -> Message) -> Message {
    message.nest(NFTA_LIST_ELEM, |element| {
        element
            .attr_str(NFTA_EXPR_NAME, name)
            .nest(NFTA_EXPR_DATA, fill)
    })
}

/// Encodes struct xt_multiport_v1: which ports, count, ports, range flags, invert.
fn multiport_info(ports: &[u16]) -> [u8; 48] {
    const DESTINATION: u8 = 1;
    let mut info = [0; 48];
    info[0] = DESTINATION;
    info[1] = ports.len().min(15) as u8;
    for (slot, port) in info[2..32].chunks_exact_mut(2).zip(ports) {
        slot.copy_from_slice(&port.to_ne_bytes());
    }
    info
}

/// Encodes struct xt_sctp_info with one destination port.
fn sctp_info(port: u16) -> [u8; 296] {
    const DESTINATION_PORTS: u32 = 2;
    let mut info = [0; 296];
    info[..2].copy_from_slice(&port.to_ne_bytes());
    info[2..4].copy_from_slice(&port.to_ne_bytes());
    // Four chunk descriptions, all unused.
    for chunk in [268, 271, 274, 277] {
        info[chunk] = 0xff;
    }
    info[284..288].copy_from_slice(&DESTINATION_PORTS.to_ne_bytes());
    info
}

/// Encodes struct xt_conntrack_mtinfo3 with only the states ESTABLISHED and RELATED.
fn conntrack_info() -> [u8; 168] {
    const STATE: u16 = 1;
    const ESTABLISHED_AND_RELATED: u16 = 2 | 4;
    let mut info = [0; 168];
    info[146..148].copy_from_slice(&STATE.to_ne_bytes());
    info[150..152].copy_from_slice(&ESTABLISHED_AND_RELATED.to_ne_bytes());
    info
}
