//! `ptp`: connects each pod by a link of its own; the node routes between the pods.

use std::io;

use serde::Deserialize;

use super::call::Call;
use super::pod_interface::How;
use super::veth::{self, Plan, Veth};
use super::{dns, ipam, masquerade, pod_interface, sysctl};
use crate::Cidr;
use crate::cni::{CniResult, IpConfig, Verb};
use crate::error::NativeError;
use crate::netlink::{Probing, RouteEntry, RouteScope, Rtnl};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Conf {
    #[serde(default)]
    ip_masq: bool,
    #[serde(default)]
    mtu: u32,
}

/// The scope of routes to the node's own neighbours, as the plugin makes them.
const SCOPE_HOST: RouteScope = RouteScope::Other(254);

pub(super) fn run(call: &Call<'_>) -> Result<Option<CniResult>, NativeError> {
    match call.verb {
        Verb::Add => add(call).map(Some),
        Verb::Del => delete(call).map(|()| None),
        Verb::Check => check(call).map(|()| None),
        Verb::Status | Verb::Gc => ipam::other(call).map(|()| None),
    }
}

fn add(call: &Call<'_>) -> Result<CniResult, NativeError> {
    let conf: Conf = call.conf()?;
    let namespace = call.open_netns()?;
    let (lease, mut result) = ipam::add(call)?;
    let without = result.ips.iter().find(|ip| ip.gateway.is_none());
    if let Some(ip) = without {
        return Err(NativeError::Config(format!(
            "the address {} has no gateway",
            ip.address
        )));
    }
    let v4 = result.ips.iter().any(|ip| ip.address.is_ipv4());
    let v6 = result.ips.iter().any(|ip| !ip.address.is_ipv4());
    sysctl::enable_forwarding(v4, v6).map_err(NativeError::system("enable forwarding"))?;

    let mut rtnl = Rtnl::open().map_err(NativeError::system("open a netlink socket"))?;
    let plan = Plan {
        mtu: (conf.mtu != 0).then_some(conf.mtu),
        mac: None,
    };
    let veth = Veth::create(&mut rtnl, &namespace, call, &plan)?;
    rtnl.connect(veth.host.index, None)
        .map_err(NativeError::system("bring up the host end of the link"))?;
    result.interfaces = vec![veth.host_interface(), veth.pod_interface(call)];
    for ip in &mut result.ips {
        ip.interface = Some(1);
    }
    // The node is the only neighbour: no duplicate can exist.
    let how = How {
        probing: Probing::Off,
        announced: true,
    };
    pod_interface::configure(&namespace, call, &result, how, |rtnl, index| {
        let mut all = result.ips.iter();
        all.try_for_each(|ip| route_through_gateway(rtnl, index, ip))
    })?;
    for ip in &result.ips {
        let action = format!("set up the host end of the link to {}", ip.address);
        lead_to_pod(&mut rtnl, &veth, ip).map_err(NativeError::system(action))?;
    }
    if conf.ip_masq {
        let addresses: Vec<_> = result.ips.iter().map(|ip| ip.address).collect();
        masquerade::set_up(call, &addresses)?;
    }
    if let Some(dns) = dns::configured(call) {
        result.dns = dns;
    }
    veth.keep();
    lease.keep();
    Ok(result)
}

fn delete(call: &Call<'_>) -> Result<(), NativeError> {
    let conf: Conf = call.conf()?;
    veth::retire(call)?;
    if conf.ip_masq {
        masquerade::tear_down(call)?;
    }
    remove_node_routes(call)?;
    ipam::delete(call)
}

fn check(call: &Call<'_>) -> Result<(), NativeError> {
    let conf: Conf = call.conf()?;
    ipam::other(call)?;
    let result = call.required_previous()?;
    pod_interface::verify(&call.open_netns()?, call, &result)?;
    if conf.ip_masq {
        let addresses: Vec<_> = result.ips.iter().map(|ip| ip.address).collect();
        masquerade::verify(call, &addresses)?;
    }
    Ok(())
}

/// Routes all traffic of the pod to the gateway, including its own subnet: the other pods are not on its link.
fn route_through_gateway(rtnl: &mut Rtnl, index: u32, ip: &IpConfig) -> io::Result<()> {
    let Some(gateway) = ip.gateway else {
        return Ok(());
    };
    let subnet = ip.address.network();
    let own = ip.address.address();
    // The route that the kernel created with the address.
    let automatic = RouteEntry::new(subnet, index, RouteScope::Other(255));
    rtnl.delete_route(&automatic)?;
    let to_gateway = RouteEntry::new(Cidr::host(gateway), index, RouteScope::Link).from(own);
    rtnl.add_route(&to_gateway)?;
    let to_subnet = RouteEntry::new(subnet, index, RouteScope::Universe)
        .via(gateway)
        .from(own);
    rtnl.add_route(&to_subnet)
}

fn lead_to_pod(rtnl: &mut Rtnl, veth: &Veth, ip: &IpConfig) -> io::Result<()> {
    if let Some(gateway) = ip.gateway {
        rtnl.add_address(veth.host.index, Cidr::host(gateway))?;
    }
    let to_pod = RouteEntry::new(
        Cidr::host(ip.address.address()),
        veth.host.index,
        SCOPE_HOST,
    );
    match rtnl.add_route(&to_pod) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => done,
    }
}

/// Removes the routes to the pod's addresses at once, before the interface is deleted. Otherwise the next owner of an
/// address could not be reached.
fn remove_node_routes(call: &Call<'_>) -> Result<(), NativeError> {
    let Some(previous) = call.previous()? else {
        return Ok(());
    };
    let action = "remove the routes to the pod";
    let mut rtnl = Rtnl::open().map_err(NativeError::system(action))?;
    let node_end = previous
        .interfaces
        .iter()
        .find(|interface| interface.sandbox.is_empty());
    let Some(node_end) = node_end else {
        return Ok(());
    };
    let link = rtnl
        .link_by_name(&node_end.name)
        .map_err(NativeError::system(action))?;
    let Some(link) = link else { return Ok(()) };
    for ip in &previous.ips {
        let route = RouteEntry::new(Cidr::host(ip.address.address()), link.index, SCOPE_HOST);
        match rtnl.delete_route(&route) {
            // The route disappeared with the interface in the meantime.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENODEV)) => {}
            done => done.map_err(NativeError::system(action))?,
        }
    }
    Ok(())
}
