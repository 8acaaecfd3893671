//! Rules for the packets that a bridge's port may send, in native nf_tables form.
//!
//! `iptables` does not see them: packets of bridges pass separate tables, which the plugins fill with the program
//! `nft`. Chains, rules and comments have the names that the plugins use.

use std::io;

use super::expression::{Compare, comment_data, compare, jump, meta, payload, verdict};
use super::nftables::{
    NFT_MSG_DELCHAIN, NFT_MSG_DELRULE, NFT_MSG_GETCHAIN, NFT_MSG_GETRULE, NFT_MSG_NEWCHAIN,
    NFT_MSG_NEWRULE, NFT_MSG_NEWTABLE, NFTA_CHAIN_HOOK, NFTA_CHAIN_NAME, NFTA_CHAIN_TYPE,
    NFTA_RULE_CHAIN, NFTA_RULE_EXPRESSIONS, NFTA_RULE_HANDLE, NFTA_RULE_USERDATA, commit,
    message_type,
};
use crate::MacAddress;
use crate::netlink::{Attributes, Message, Socket};

/// The names of the rules for one port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PortGuard {
    chain: String,
    mac_chain: String,
    comment: Vec<u8>,
}

const TABLE: &str = "nat";
const BASE_CHAIN: &str = "PREROUTING";

// <linux/netfilter.h>, <linux/netfilter_bridge.h>, <linux/netfilter/nf_tables.h>
const NFPROTO_BRIDGE: u8 = 7;
const NF_BR_PRE_ROUTING: u32 = 0;
const NF_BR_PRI_NAT_DST_BRIDGED: i32 = -300;
/// The attribute of the table's name: the same for tables, chains and rules.
const NFTA_TABLE: u16 = 1;
const NFT_RETURN: u32 = -5_i32 as u32;
const NF_DROP: u32 = 0;
const NFT_META_IIFNAME: u32 = 6;
const NFT_PAYLOAD_LINK_HEADER: u32 = 0;
/// Offset of the source address in an Ethernet header.
const ETHER_SOURCE: u32 = 6;
const IFNAMSIZ: usize = 16;

impl PortGuard {
    /// Creates the guard of one interface of one container.
    pub(crate) fn new(identity: &str) -> Self {
        let chain = format!("cni-br-iface-{identity}");
        Self {
            mac_chain: format!("{chain}-mac"),
            chain,
            comment: comment_data(&format!("macspoofchk-{identity}")),
        }
    }

    /// Returns the chain that the port's packets pass.
    pub(crate) fn chain(&self) -> &str {
        &self.chain
    }

    pub(super) fn set_up(
        &self,
        socket: &mut Socket,
        port: &str,
        mac: MacAddress,
    ) -> io::Result<()> {
        // Left over from a crash, for a port with another name.
        self.tear_down(socket)?;
        let create = libc::NLM_F_CREATE;
        let base = message(NFT_MSG_NEWCHAIN, create)
            .attr_str(NFTA_CHAIN_NAME, BASE_CHAIN)
            .nest(NFTA_CHAIN_HOOK, |hook| {
                hook.attr_be32(1, NF_BR_PRE_ROUTING)
                    .attr_be32(2, NF_BR_PRI_NAT_DST_BRIDGED as u32)
            })
            .attr_str(NFTA_CHAIN_TYPE, "filter");
        let chain = |name: &str| message(NFT_MSG_NEWCHAIN, create).attr_str(NFTA_CHAIN_NAME, name);
        let mut name = [0; IFNAMSIZ];
        for (to, from) in name.iter_mut().zip(port.bytes().take(IFNAMSIZ - 1)) {
            *to = from;
        }
        let from_port = |list| compare(meta(list, NFT_META_IIFNAME), &name, Compare::Equal);
        let from_mac = |list| {
            let list = payload(list, NFT_PAYLOAD_LINK_HEADER, ETHER_SOURCE, 6);
            compare(list, &mac.0, Compare::Equal)
        };
        commit(
            socket,
            vec![
                message(NFT_MSG_NEWTABLE, create),
                base,
                chain(&self.chain),
                chain(&self.mac_chain),
                self.rule(BASE_CHAIN, |list| jump(from_port(list), &self.chain)),
                self.rule(&self.chain, |list| jump(list, &self.mac_chain)),
                self.rule(&self.mac_chain, |list| decide(from_mac(list), NFT_RETURN)),
                self.rule(&self.mac_chain, |list| decide(list, NF_DROP)),
            ],
        )
    }

    pub(super) fn tear_down(&self, socket: &mut Socket) -> io::Result<()> {
        let mut changes = Vec::new();
        for handle in self.handles(socket)? {
            let rule = message(NFT_MSG_DELRULE, 0).attr_str(NFTA_RULE_CHAIN, BASE_CHAIN);
            changes.push(rule.attr(NFTA_RULE_HANDLE, &handle));
        }
        // The rules of the first chain jump to the second.
        for chain in [&self.chain, &self.mac_chain] {
            if is_there(socket, chain)? {
                changes.push(message(NFT_MSG_DELRULE, 0).attr_str(NFTA_RULE_CHAIN, chain));
                changes.push(message(NFT_MSG_DELCHAIN, 0).attr_str(NFTA_CHAIN_NAME, chain));
            }
        }
        commit(socket, changes)
    }

    pub(super) fn stands(&self, socket: &mut Socket) -> io::Result<bool> {
        Ok(!self.handles(socket)?.is_empty()
            && is_there(socket, &self.chain)?
            && is_there(socket, &self.mac_chain)?)
    }

    fn rule(&self, chain: &str, fill: impl FnOnce(Message) -> Message) -> Message {
        message(NFT_MSG_NEWRULE, libc::NLM_F_CREATE | libc::NLM_F_APPEND)
            .attr_str(NFTA_RULE_CHAIN, chain)
            .nest(NFTA_RULE_EXPRESSIONS, fill)
            .attr(NFTA_RULE_USERDATA, &self.comment)
    }

    /// Returns the handles of the rules that send the port's packets to this chain.
    fn handles(&self, socket: &mut Socket) -> io::Result<Vec<Vec<u8>>> {
        let all = message(NFT_MSG_GETRULE, 0).attr_str(NFTA_RULE_CHAIN, BASE_CHAIN);
        let replies = match socket.dump(all) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            done => done?,
        };
        let own = replies.iter().filter_map(|(_, body)| {
            let rule = Attributes(body.get(4..)?);
            // Older kernels do not filter the list.
            let here = rule.text(NFTA_TABLE)? == TABLE && rule.text(NFTA_RULE_CHAIN)? == BASE_CHAIN;
            let own = here && rule.get(NFTA_RULE_USERDATA)?.starts_with(&self.comment);
            own.then(|| rule.get(NFTA_RULE_HANDLE).map(<[u8]>::to_vec))?
        });
        Ok(own.collect())
    }
}

fn is_there(socket: &mut Socket, chain: &str) -> io::Result<bool> {
    match socket.query(message(NFT_MSG_GETCHAIN, 0).attr_str(NFTA_CHAIN_NAME, chain)) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn decide(list: Message, code: u32) -> Message {
    verdict(list, |verdict| verdict.attr_be32(1, code))
}

/// Creates a message about the table.
fn message(kind: u16, flags: i32) -> Message {
    Message::new(message_type(kind), flags)
        .fixed(&[NFPROTO_BRIDGE, 0, 0, 0])
        .attr_str(NFTA_TABLE, TABLE)
}
