//! Rules as values, and the steps that change them.

use std::net::IpAddr;

use aws_lc_rs::digest::{SHA512, digest};

use crate::{Cidr, Protocol};

/// An address family; each has its own tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

/// A table of `iptables`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    Nat,
    Filter,
}

/// The conditions of a rule, and its target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) matches: Vec<Match>,
    pub(crate) target: Target,
}

/// One condition of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Match {
    Source(Cidr),
    Destination(Cidr),
    NotDestination(Cidr),
    /// The protocol, and one destination port.
    Port(Protocol, u16),
    /// The protocol, and up to 15 destination ports.
    Ports(Protocol, Vec<u16>),
    /// The destination is an address of this node.
    ToThisNode,
    /// Bits of the packet's mark.
    Marked(u32),
    /// The packet belongs to an established connection.
    Established,
    /// No condition: a comment for people who list the rules.
    Comment(String),
}

/// The action of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Accept,
    Jump(String),
    Masquerade,
    DestinationNat(IpAddr, u16),
    /// Sets bits of the packet's mark.
    Mark(u32),
}

/// One step of a table change; all steps apply at once or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Creates a chain, which must not exist.
    NewChain(String),
    /// Creates a chain unless it exists.
    Chain(String),
    /// Adds a rule at a chain's end.
    Append(String, Rule),
    /// Adds a rule to a chain that has no rules.
    OnlyRule(String, Rule),
    /// Adds a jump at a chain's end (or its beginning), unless the chain already jumps to the same target.
    JumpOnce {
        chain: String,
        rule: Rule,
        first: bool,
    },
    /// Adds a jump at a chain's beginning, unless any rule already jumps to its target.
    Reach { chain: String, rule: Rule },
    /// Removes a chain and the jumps to it in other chains, if it exists.
    RemoveChain {
        chain: String,
        jumps_in: Vec<String>,
    },
    /// Removes a chain's rules about an address.
    RemoveAbout { chain: String, address: IpAddr },
}

/// Maximum length of a chain name in `iptables`.
const MAX_CHAIN_NAME: usize = 28;

/// Returns the name of a container's chain, as all CNI implementations derive it.
pub(crate) fn chain_name(prefix: &str, network: &str, container_id: &str) -> String {
    let mut name = hash_name(&format!("CNI-{prefix}"), network, container_id);
    name.truncate(MAX_CHAIN_NAME);
    name
}

/// Returns a container's name on a network, as all CNI implementations derive it. Callers cut it to the length that
/// fits.
pub(crate) fn hash_name(prefix: &str, network: &str, container_id: &str) -> String {
    let digest = digest(&SHA512, format!("{network}{container_id}").as_bytes());
    format!("{prefix}{}", orlop_text::hex::encode(digest.as_ref()))
}

impl Family {
    pub(crate) fn of(address: IpAddr) -> Self {
        if address.is_ipv4() {
            Self::V4
        } else {
            Self::V6
        }
    }

    pub(crate) fn number(self) -> u8 {
        match self {
            Self::V4 => libc::AF_INET as u8,
            Self::V6 => libc::AF_INET6 as u8,
        }
    }
}

impl Table {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nat => "nat",
            Self::Filter => "filter",
        }
    }
}

impl Rule {
    pub(crate) fn new(matches: impl Into<Vec<Match>>, target: Target) -> Self {
        Self {
            matches: matches.into(),
            target,
        }
    }

    /// Returns the rule in the syntax of `iptables-restore`.
    pub(crate) fn to_text(&self) -> String {
        let mut words: Vec<String> = self.matches.iter().map(Match::to_text).collect();
        words.push(match &self.target {
            Target::Accept => "-j ACCEPT".to_owned(),
            Target::Jump(chain) => format!("-j {chain}"),
            Target::Masquerade => "-j MASQUERADE".to_owned(),
            Target::DestinationNat(IpAddr::V4(to), port) => {
                format!("-j DNAT --to-destination {to}:{port}")
            }
            Target::DestinationNat(IpAddr::V6(to), port) => {
                format!("-j DNAT --to-destination [{to}]:{port}")
            }
            Target::Mark(bits) => format!("-j MARK --set-xmark {bits:#x}/{bits:#x}"),
        });
        words.join(" ")
    }
}

impl Match {
    fn to_text(&self) -> String {
        match self {
            Self::Source(cidr) => format!("-s {cidr}"),
            Self::Destination(cidr) => format!("-d {cidr}"),
            Self::NotDestination(cidr) => format!("! -d {cidr}"),
            Self::Port(protocol, port) => {
                let name = protocol.as_str();
                format!("-p {name} -m {name} --dport {port}")
            }
            Self::Ports(protocol, ports) => {
                let list: Vec<_> = ports.iter().map(u16::to_string).collect();
                format!(
                    "-p {} -m multiport --dports {}",
                    protocol.as_str(),
                    list.join(",")
                )
            }
            Self::ToThisNode => "-m addrtype --dst-type LOCAL".to_owned(),
            Self::Marked(bits) => format!("-m mark --mark {bits:#x}/{bits:#x}"),
            Self::Established => "-m conntrack --ctstate RELATED,ESTABLISHED".to_owned(),
            Self::Comment(text) => {
                let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
                format!("-m comment --comment \"{quoted}\"")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_named_as_the_plugins_name_them() {
        // Taken from the output of the plugins of version 1.1.1.
        assert_eq!(
            chain_name("", "net1", "abc123"),
            "CNI-2f87150385ce5583fe68629c"
        );
        assert_eq!(
            chain_name("DN-", "net1", "abc123"),
            "CNI-DN-2f87150385ce5583fe686"
        );
    }

    #[test]
    fn rules_read_as_iptables_saves_them() {
        let rule = Rule::new(
            [
                Match::Source("10.55.0.2/32".parse().unwrap()),
                Match::Comment("name: \"net1\" id: \"abc123\"".into()),
            ],
            Target::Jump("CNI-X".into()),
        );
        assert_eq!(
            rule.to_text(),
            r#"-s 10.55.0.2/32 -m comment --comment "name: \"net1\" id: \"abc123\"" -j CNI-X"#
        );
    }
}
