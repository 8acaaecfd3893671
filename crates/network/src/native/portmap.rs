//! `portmap`: maps host ports to a pod, with maps that all pods share, or with one chain per pod as `iptables` shows
//! it if maps are unsupported or not wanted.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Deserialize;

use super::call::Call;
use super::sysctl;
use crate::cni::{CniResult, Verb};
use crate::error::NativeError;
use crate::filter::{
    self, Detour, Family, FilterError, Match, PortMaps, Rule, Step, Table, Target, chain_name,
};
use crate::netlink::Rtnl;
use crate::{Cidr, PortMapping, Protocol};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Conf {
    #[serde(default = "yes")]
    snat: bool,
    #[serde(default)]
    masq_all: bool,
    #[serde(default = "default_mark_bit")]
    mark_masq_bit: u32,
    #[serde(default)]
    backend: String,
    #[serde(default)]
    runtime_config: RuntimeConf,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RuntimeConf {
    #[serde(default)]
    port_mappings: Vec<PortMapping>,
}

impl Conf {
    /// Returns the mark bits of packets whose answers must return through the node.
    fn mark(&self) -> u32 {
        1 << self.mark_masq_bit
    }
}

/// Receives packets to the node's own addresses; jumps to the pods' chains.
const DNAT: &str = "CNI-HOSTPORT-DNAT";
/// Marks packets whose answers must return through the node.
const SET_MARK: &str = "CNI-HOSTPORT-SETMARK";
/// Masquerades the marked packets.
const MASQUERADE: &str = "CNI-HOSTPORT-MASQ";
/// Maximum number of ports in one rule.
const PORTS_PER_RULE: usize = 15;

pub(super) fn run(call: &Call<'_>) -> Result<Option<CniResult>, NativeError> {
    let conf: Conf = call.conf()?;
    if conf.mark_masq_bit > 31 {
        return Err(NativeError::Config(
            "MasqMarkBit must be between 0 and 31".to_owned(),
        ));
    }
    match call.verb {
        Verb::Add => add(call, &conf).map(Some),
        Verb::Del => delete(call, &conf).map(|()| None),
        Verb::Check => check(call, &conf).map(|()| None),
        Verb::Status | Verb::Gc => Ok(None),
    }
}

fn add(call: &Call<'_>, conf: &Conf) -> Result<CniResult, NativeError> {
    let result = call.required_previous()?;
    let mappings = &conf.runtime_config.port_mappings;
    if let Some(mapping) = mappings
        .iter()
        .find(|m| m.host_port == 0 || m.container_port == 0)
    {
        return Err(NativeError::Config(format!(
            "Invalid port number: {mapping:?}"
        )));
    }
    if mappings.is_empty() {
        return Ok(result);
    }
    for address in own_addresses(call, &result) {
        let family = Family::of(address.address());
        lead(call, conf, address)?;
        forget_udp(family, mappings);
        if conf.snat && address.is_ipv4() {
            let_loopback_out(address)?;
        }
    }
    Ok(result)
}

/// Maps the host ports to the pod's address.
fn lead(call: &Call<'_>, conf: &Conf, address: Cidr) -> Result<(), NativeError> {
    let family = Family::of(address.address());
    // With this backend the network requires rules that `iptables` shows.
    if conf.backend != "iptables" {
        let detour = conf.snat.then(|| Detour {
            network: call.network,
            inside: address.network(),
            everyone: conf.masq_all,
            mark: conf.mark(),
        });
        let maps = maps(call, conf, family);
        match filter::map_ports(&maps, address.address(), detour.as_ref()) {
            Err(FilterError::Unsupported(_)) => {}
            done => return Ok(done?),
        }
    }
    let (removal, steps) = (removal(call), steps(call, conf, address));
    Ok(filter::apply_anew(family, Table::Nat, &removal, &steps)?)
}

/// Reports whether the maps contain any port of the pod.
pub(super) fn is_by_maps(call: &Call<'_>) -> bool {
    let Ok(conf) = call.conf::<Conf>() else {
        return false;
    };
    let has = |family| filter::has_port_mapped(&maps(call, &conf, family)).unwrap_or(false);
    [Family::V4, Family::V6].into_iter().any(has)
}

fn delete(call: &Call<'_>, conf: &Conf) -> Result<(), NativeError> {
    if conf.runtime_config.port_mappings.is_empty() {
        return Ok(());
    }
    let families = match call.previous()? {
        Some(result) => own_addresses(call, &result)
            .map(|ip| Family::of(ip.address()))
            .collect(),
        None => vec![Family::V4, Family::V6],
    };
    families
        .into_iter()
        .try_for_each(|family| tear_down(call, conf, family))
}

fn check(call: &Call<'_>, conf: &Conf) -> Result<(), NativeError> {
    let result = call.required_previous()?;
    if conf.runtime_config.port_mappings.is_empty() {
        return Ok(());
    }
    let chain = chain_name("DN-", call.network, call.container_id);
    for address in own_addresses(call, &result) {
        let family = Family::of(address.address());
        if !filter::are_ports_mapped(&maps(call, conf, family))?
            && !filter::chain_exists(family, Table::Nat, &chain)?
        {
            return Err(NativeError::Check(format!(
                "the port mapping chain {chain} is missing, and the nftables maps do not contain \
                 all ports of the pod"
            )));
        }
    }
    Ok(())
}

/// Removes the rules of [`lead`], of the plugin's program, or of an earlier version of this one, if they exist.
fn tear_down(call: &Call<'_>, conf: &Conf, family: Family) -> Result<(), NativeError> {
    filter::unmap_ports(&maps(call, conf, family))?;
    Ok(filter::apply(family, Table::Nat, &removal(call))?)
}

fn removal(call: &Call<'_>) -> [Step; 1] {
    let chain = chain_name("DN-", call.network, call.container_id);
    [Step::RemoveChain {
        chain,
        jumps_in: vec![DNAT.to_owned()],
    }]
}

/// Returns the pod's port maps.
fn maps(call: &Call<'_>, conf: &Conf, family: Family) -> PortMaps {
    PortMaps::new(family, call.owner(), &conf.runtime_config.port_mappings)
}

/// Returns the pod's first address of each family.
fn own_addresses(call: &Call<'_>, result: &CniResult) -> impl Iterator<Item = Cidr> {
    let own = |v4: bool| {
        result
            .ips
            .iter()
            .filter(|ip| {
                let interface = ip
                    .interface
                    .and_then(|i| result.interfaces.get(usize::try_from(i).ok()?));
                interface.is_none_or(|i| i.name == call.if_name && !i.sandbox.is_empty())
            })
            .map(|ip| ip.address)
            .find(|address| address.is_ipv4() == v4)
    };
    [own(true), own(false)].into_iter().flatten()
}

fn steps(call: &Call<'_>, conf: &Conf, address: Cidr) -> Vec<Step> {
    let mark = conf.mark();
    let own = chain_name("DN-", call.network, call.container_id);
    let jump = |to: &str| Target::Jump(to.to_owned());
    let enter = |from: &str| Step::JumpOnce {
        chain: from.to_owned(),
        rule: Rule::new([Match::ToThisNode], jump(DNAT)),
        first: false,
    };
    let mut steps = vec![
        Step::Chain(DNAT.to_owned()),
        enter("PREROUTING"),
        enter("OUTPUT"),
    ];
    if conf.snat {
        let comment = |text: &str| Match::Comment(text.to_owned());
        steps.extend([
            Step::Chain(SET_MARK.to_owned()),
            Step::OnlyRule(
                SET_MARK.to_owned(),
                Rule::new([comment("CNI portfwd masquerade mark")], Target::Mark(mark)),
            ),
            Step::Chain(MASQUERADE.to_owned()),
            Step::OnlyRule(
                MASQUERADE.to_owned(),
                Rule::new([Match::Marked(mark)], Target::Masquerade),
            ),
            Step::JumpOnce {
                chain: "POSTROUTING".to_owned(),
                rule: Rule::new(
                    [comment("CNI portfwd requiring masquerade")],
                    jump(MASQUERADE),
                ),
                first: true,
            },
        ]);
    }
    steps.push(Step::NewChain(own.clone()));
    let mappings = &conf.runtime_config.port_mappings;
    for mapping in mappings {
        let rules = rules_of_mapping(conf, mapping, address);
        steps.extend(
            rules
                .into_iter()
                .map(|rule| Step::Append(own.clone(), rule)),
        );
    }
    let comment = Match::Comment(format!(
        "dnat name: {:?} id: {:?}",
        call.network, call.container_id
    ));
    for (protocol, ports) in by_protocol(mappings) {
        for ports in ports.chunks(PORTS_PER_RULE) {
            let matches = [comment.clone(), Match::Ports(protocol, ports.to_vec())];
            steps.push(Step::Append(
                DNAT.to_owned(),
                Rule::new(matches, jump(&own)),
            ));
        }
    }
    steps
}

fn rules_of_mapping(conf: &Conf, mapping: &PortMapping, address: Cidr) -> Vec<Rule> {
    let host_ip = mapping.host_ip;
    if host_ip.is_some_and(|ip| ip.is_ipv4() != address.is_ipv4()) {
        return Vec::new();
    }
    let to_port = |source: Option<Cidr>| {
        let mut matches: Vec<Match> = source.map(Match::Source).into_iter().collect();
        let specific = host_ip.filter(|ip| !ip.is_unspecified());
        matches.extend(specific.map(|ip| Match::Destination(Cidr::host(ip))));
        matches.push(Match::Port(mapping.protocol, mapping.host_port));
        matches
    };
    let mut rules = Vec::new();
    if conf.snat {
        let set_mark = |source| Rule::new(to_port(source), Target::Jump(SET_MARK.to_owned()));
        if conf.masq_all {
            rules.push(set_mark(None));
        } else {
            // For a pod that calls itself (or a neighbour) through the host port.
            rules.push(set_mark(Some(address.network())));
            if address.is_ipv4() {
                rules.push(set_mark(Some(Cidr::host([127, 0, 0, 1].into()))));
            }
        }
    }
    let target = Target::DestinationNat(address.address(), mapping.container_port);
    rules.push(Rule::new(to_port(None), target));
    rules
}

/// Groups the ports by protocol, in the order of the protocol names.
fn by_protocol(mappings: &[PortMapping]) -> Vec<(Protocol, Vec<u16>)> {
    let mut ports: BTreeMap<&str, (Protocol, Vec<u16>)> = BTreeMap::new();
    for mapping in mappings {
        let name = mapping.protocol.as_str();
        let entry = ports
            .entry(name)
            .or_insert_with(|| (mapping.protocol, Vec::new()));
        entry.1.push(mapping.host_port);
    }
    let mut ports: Vec<_> = ports.into_values().collect();
    for (_, list) in &mut ports {
        list.sort_unstable();
        list.dedup();
    }
    ports
}

/// Redirects existing UDP clients of a mapped port to the pod, too.
fn forget_udp(family: Family, mappings: &[PortMapping]) {
    let udp: Vec<_> = mappings
        .iter()
        .filter(|m| m.protocol == Protocol::Udp)
        .collect();
    if udp.is_empty() {
        return;
    }
    let is_stale = |address: IpAddr, port: u16| {
        udp.iter().any(|mapping| {
            let specific = mapping.host_ip.filter(|ip| !ip.is_unspecified());
            mapping.host_port == port && specific.is_none_or(|ip| ip == address)
        })
    };
    if let Err(error) = filter::forget_udp(family, is_stale) {
        // New clients are not affected.
        tracing::warn!(
            ?error,
            "cannot redirect clients that already use a mapped UDP port"
        );
    }
}

/// Allows packets from 127.0.0.1 to leave through the interface towards the pod, for access to mapped ports.
fn let_loopback_out(address: Cidr) -> Result<(), NativeError> {
    let action = "let local clients reach mapped ports";
    let mut rtnl = Rtnl::open().map_err(NativeError::system(action))?;
    let index = rtnl
        .route_to(address.address())
        .map_err(NativeError::system(action))?;
    let Some(index) = index else { return Ok(()) };
    let link = rtnl
        .link_by_index(index)
        .map_err(NativeError::system(action))?;
    let Some(link) = link else { return Ok(()) };
    let setting = format!("net/ipv4/conf/{}/route_localnet", link.name);
    sysctl::set(&setting, "1").map_err(NativeError::system(action))
}

fn yes() -> bool {
    true
}

/// The bit that all implementations use; Kubernetes uses 14 and 15.
fn default_mark_bit() -> u32 {
    13
}
