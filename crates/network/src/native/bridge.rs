//! `bridge`: connects a pod to a bridge of the node.

use std::net::IpAddr;
use std::time::Duration;

use super::bridge_conf::BridgeConf;
use super::bridge_vlan::Vlans;
use super::call::Call;
use super::ipam;
use super::pod_interface::How;
use super::veth::{self, Plan, Veth};
use super::{bridge_device, dns, mac_spoofing, masquerade, pod_interface, sysctl};
use crate::cidr::next_address;
use crate::cni::{CniResult, Interface, Route, Verb};
use crate::error::NativeError;
use crate::netlink::{BridgePort, Link, Probing, Rtnl};
use crate::{Cidr, MacAddress};

/// Delays while the bridge's port comes up; it usually is up at once.
const PORT_WAITS_MS: [u64; 8] = [0, 1, 2, 5, 50, 500, 1000, 1000];

pub(super) fn run(call: &Call<'_>) -> Result<Option<CniResult>, NativeError> {
    match call.verb {
        Verb::Add => add(call).map(Some),
        Verb::Del => delete(call).map(|()| None),
        Verb::Check => check(call).map(|()| None),
        Verb::Status => status(call).map(|()| None),
        Verb::Gc => ipam::other(call).map(|()| None),
    }
}

fn add(call: &Call<'_>) -> Result<CniResult, NativeError> {
    let conf = BridgeConf::read(call)?;
    let vlans = Vlans::read(&conf.vlan)?;
    let namespace = call.open_netns()?;
    let mut rtnl = Rtnl::open().map_err(NativeError::system("open a netlink socket"))?;
    let bridge = bridge_device::ensure(&mut rtnl, &conf, vlans.filtering)?;
    let (lease, addresses) = ipam::add(call)?;
    let asked = conf.mac(call)?;
    let plan = Plan {
        mtu: conf.mtu(),
        mac: asked.or_else(|| mac_of(&addresses)),
    };
    let veth = Veth::create(&mut rtnl, &namespace, call, &plan)?;
    set_up_port(&mut rtnl, &veth, &bridge, &conf)?;
    // The pod's end is still down: it has not sent anything yet.
    vlans.apply(&mut rtnl, &veth.host)?;
    let guard = conf
        .mac_spoof_check
        .then(|| mac_spoofing::prevent(call, &veth))
        .transpose()?;

    let mut result = CniResult {
        interfaces: vec![
            Interface {
                name: bridge.name.clone(),
                mac: bridge.mac_text(),
                ..Interface::default()
            },
            veth.host_interface(),
            veth.pod_interface(call),
        ],
        ..addresses
    };
    let gateways = add_gateways(&mut result, &conf);
    let probing = if conf.enable_dad {
        Probing::On
    } else {
        Probing::Off
    };
    let how = How {
        probing,
        // Neighbours may have cached another Ethernet address for the IPv4 address.
        announced: asked.is_some(),
    };
    pod_interface::configure(&namespace, call, &result, how, |_, _| Ok(()))?;
    if conf.is_gateway {
        let holder = match vlans.own {
            Some(id) => vlans.gateway(&mut rtnl, &bridge, id)?,
            None => bridge.clone(),
        };
        for gateway in &gateways {
            bridge_device::ensure_address(&mut rtnl, &holder, *gateway, conf.force_address)?;
        }
        if vlans.own.is_some() {
            result.interfaces.push(Interface {
                name: holder.name.clone(),
                mac: holder.mac_text(),
                ..Interface::default()
            });
        }
        let (v4, v6) = (
            gateways.iter().any(Cidr::is_ipv4),
            gateways.iter().any(|g| !g.is_ipv4()),
        );
        sysctl::enable_forwarding(v4, v6).map_err(NativeError::system("enable forwarding"))?;
    }
    if conf.ip_masq {
        let addresses: Vec<_> = result.ips.iter().map(|ip| ip.address).collect();
        masquerade::set_up(call, &addresses)?;
    }
    wait_for_port(&mut rtnl, &veth)?;
    // A bridge that an administrator created may follow its ports' addresses.
    if let Some(bridge) = bridge_device::find(&mut rtnl, &conf.bridge)? {
        result.interfaces[0].mac = bridge.mac_text();
    }
    if let Some(dns) = dns::configured(call) {
        result.dns = dns;
    }
    veth.keep();
    lease.keep();
    if let Some(guard) = guard {
        guard.keep();
    }
    Ok(result)
}

fn delete(call: &Call<'_>) -> Result<(), NativeError> {
    let conf: BridgeConf = call.conf()?;
    veth::retire(call)?;
    if conf.mac_spoof_check {
        mac_spoofing::permit(call)?;
    }
    if conf.ip_masq {
        masquerade::tear_down(call)?;
    }
    // Last step: the addresses stay reserved while anything above exists.
    ipam::delete(call)
}

fn check(call: &Call<'_>) -> Result<(), NativeError> {
    let conf = BridgeConf::read(call)?;
    ipam::other(call)?;
    let result = call.required_previous()?;
    let mut rtnl = Rtnl::open().map_err(NativeError::system("open a netlink socket"))?;
    let bridge = bridge_device::find(&mut rtnl, &conf.bridge)?
        .ok_or_else(|| NativeError::Check(format!("the bridge {} is missing", conf.bridge)))?;
    let on_node =
        |interface: &&Interface| interface.sandbox.is_empty() && interface.name != bridge.name;
    for interface in result
        .interfaces
        .iter()
        .filter(on_node)
        .filter(|i| i.name.starts_with("veth"))
    {
        let link = rtnl
            .link_by_name(&interface.name)
            .map_err(NativeError::system(format!("inspect {}", interface.name)))?;
        if link.and_then(|link| link.master) != Some(bridge.index) {
            return Err(NativeError::Check(format!(
                "interface {} is not a port of the bridge {}",
                interface.name, bridge.name
            )));
        }
    }
    pod_interface::verify(&call.open_netns()?, call, &result)?;
    if conf.mac_spoof_check {
        mac_spoofing::verify(call)?;
    }
    if conf.ip_masq {
        let addresses: Vec<_> = result.ips.iter().map(|ip| ip.address).collect();
        masquerade::verify(call, &addresses)?;
    }
    Ok(())
}

fn status(call: &Call<'_>) -> Result<(), NativeError> {
    let conf = BridgeConf::read(call)?;
    Vlans::read(&conf.vlan)?;
    let mut rtnl = Rtnl::open().map_err(NativeError::system("open a netlink socket"))?;
    // Another kind of interface with that name is an error.
    bridge_device::find(&mut rtnl, &conf.bridge)?;
    ipam::other(call)
}

/// Assigns the addresses to the pod's interface, and fills in their gateways and the default routes. Returns the
/// gateways that the bridge should have.
fn add_gateways(result: &mut CniResult, conf: &BridgeConf) -> Vec<Cidr> {
    let mut gateways = Vec::new();
    let mut routed = [false; 2];
    for ip in &mut result.ips {
        ip.interface = Some(2);
        if ip.gateway.is_none() && conf.is_gateway {
            ip.gateway = next_address(ip.address.network().address());
        }
        let family = usize::from(!ip.address.is_ipv4());
        let everywhere = Cidr::everywhere(ip.address.is_ipv4());
        if conf.is_default_gateway && !routed[family] {
            routed[family] = true;
            let there = result
                .routes
                .iter()
                .any(|r| r.gw.is_some() && r.dst == everywhere);
            if !there {
                result.routes.push(Route::new(everywhere, ip.gateway));
            }
        }
        if conf.is_gateway {
            let gateway = ip
                .gateway
                .and_then(|gateway| Cidr::new(gateway, ip.address.prefix()));
            gateways.extend(gateway);
        }
    }
    gateways
}

/// Returns the Ethernet address for the pod's first IPv4 address.
fn mac_of(addresses: &CniResult) -> Option<MacAddress> {
    let mut all = addresses.ips.iter().map(|ip| ip.address.address());
    all.find_map(|address| match address {
        IpAddr::V4(v4) => Some(MacAddress::of_address(v4)),
        IpAddr::V6(_) => None,
    })
}

fn set_up_port(
    rtnl: &mut Rtnl,
    veth: &Veth,
    bridge: &Link,
    conf: &BridgeConf,
) -> Result<(), NativeError> {
    let action = || format!("set up the bridge port {}", veth.host.name);
    veth.plug(rtnl, bridge.index)
        .map_err(NativeError::system(action()))?;
    if conf.hairpin_mode || conf.port_isolation {
        let port = BridgePort {
            hairpin: conf.hairpin_mode,
            isolated: conf.port_isolation,
        };
        rtnl.set_bridge_port(veth.host.index, port)
            .map_err(NativeError::system(action()))?;
    }
    Ok(())
}

fn wait_for_port(rtnl: &mut Rtnl, veth: &Veth) -> Result<(), NativeError> {
    let action = "inspect the bridge port";
    for wait in PORT_WAITS_MS {
        std::thread::sleep(Duration::from_millis(wait));
        let link = rtnl
            .link_by_index(veth.host.index)
            .map_err(NativeError::system(action))?;
        match link {
            None => {
                return Err(NativeError::Conflict(
                    "another program removed the bridge port".to_owned(),
                ));
            }
            Some(link) if link.has_carrier() => return Ok(()),
            Some(_) => {}
        }
    }
    Err(NativeError::Conflict(format!(
        "bridge port {} does not come up",
        veth.host.name
    )))
}
