//! `bandwidth`: traffic limits of a pod.

use std::io;
use std::os::fd::AsFd as _;

use serde::Deserialize;

use super::call::Call;
use crate::Bandwidth;
use crate::cni::{CniResult, Interface, Verb};
use crate::error::NativeError;
use crate::filter::hash_name;
use crate::netlink::{Link, Rtnl, TokenBucket};
use crate::netns;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Conf {
    #[serde(flatten)]
    own: Bandwidth,
    #[serde(default)]
    runtime_config: RuntimeConf,
}

#[derive(Debug, Default, Deserialize)]
struct RuntimeConf {
    #[serde(default)]
    bandwidth: Option<Bandwidth>,
}

/// Maximum length of an interface name in the kernel.
const MAX_NAME: usize = 15;

pub(super) fn run(call: &Call<'_>) -> Result<Option<CniResult>, NativeError> {
    match call.verb {
        Verb::Add => add(call).map(Some),
        Verb::Del => delete(call).map(|()| None),
        Verb::Check => check(call).map(|()| None),
        Verb::Status | Verb::Gc => Ok(None),
    }
}

fn limits(call: &Call<'_>) -> Result<Bandwidth, NativeError> {
    let conf: Conf = call.conf()?;
    let limits = match conf.runtime_config.bandwidth {
        Some(asked) if conf.own == Bandwidth::default() => asked,
        _ => conf.own,
    };
    for (rate, burst) in [
        (limits.ingress_rate, limits.ingress_burst),
        (limits.egress_rate, limits.egress_burst),
    ] {
        let problem = match (rate, burst) {
            (1.., 0) => "if rate is set, burst must also be set",
            (0, 1..) => "if burst is set, rate must also be set",
            (_, burst) if burst / 8 >= u64::from(u32::MAX) => "burst cannot be more than 4GB",
            _ => continue,
        };
        return Err(NativeError::Config(problem.to_owned()));
    }
    Ok(limits)
}

fn add(call: &Call<'_>) -> Result<CniResult, NativeError> {
    let limits = limits(call)?;
    let mut result = call.required_previous()?;
    if limits == Bandwidth::default() {
        return Ok(result);
    }
    let action = "limit the pod's bandwidth";
    let mut rtnl = Rtnl::open().map_err(NativeError::system(action))?;
    let host = node_end(&mut rtnl, call, &result)?;
    if limits.ingress_rate > 0 {
        // Traffic to the pod leaves through the node's end of the pair.
        let bucket = TokenBucket::from_bits(limits.ingress_rate, limits.ingress_burst);
        rtnl.limit_rate(host.index, bucket)
            .map_err(NativeError::system(action))?;
    }
    if limits.egress_rate > 0 {
        // Only sending can be limited: traffic from the pod takes a detour through another interface.
        let name = detour_name(call);
        match rtnl.create_plain(&name, "ifb", host.mtu) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            done => done.map_err(NativeError::system(action))?,
        }
        let detour = rtnl
            .link_by_name(&name)
            .map_err(NativeError::system(action))?;
        let detour = detour
            .ok_or_else(|| NativeError::Conflict(format!("another program removed {name}")))?;
        let bucket = TokenBucket::from_bits(limits.egress_rate, limits.egress_burst);
        rtnl.limit_rate(detour.index, bucket)
            .map_err(NativeError::system(action))?;
        rtnl.redirect_ingress(host.index, detour.index)
            .map_err(NativeError::system(action))?;
        let mac = detour.mac_text();
        result.interfaces.push(Interface {
            name,
            mac,
            ..Interface::default()
        });
    }
    Ok(result)
}

fn delete(call: &Call<'_>) -> Result<(), NativeError> {
    let action = "remove the pod's bandwidth limit";
    let mut rtnl = Rtnl::open().map_err(NativeError::system(action))?;
    // The limit itself disappears with the pod's interface.
    let detour = rtnl
        .link_by_name(&detour_name(call))
        .map_err(NativeError::system(action))?;
    match detour {
        Some(link) => delete_aside(rtnl, link.index).map_err(NativeError::system(action)),
        None => Ok(()),
    }
}

/// Deletes the detour on a separate thread: the kernel takes 20 ms.
fn delete_aside(mut rtnl: Rtnl, index: u32) -> io::Result<()> {
    let work = move || {
        if let Err(error) = rtnl.delete_link(index) {
            tracing::warn!(%error, index, "cannot delete the ifb device of a bandwidth limit");
        }
    };
    std::thread::Builder::new()
        .name("orlop-net-reap".to_owned())
        .spawn(work)
        .map(drop)
}

fn check(call: &Call<'_>) -> Result<(), NativeError> {
    let limits = limits(call)?;
    let result = call.required_previous()?;
    if limits == Bandwidth::default() {
        return Ok(());
    }
    let action = "inspect the pod's bandwidth limit";
    let mut rtnl = Rtnl::open().map_err(NativeError::system(action))?;
    let host = node_end(&mut rtnl, call, &result)?;
    let mut limited = Vec::new();
    if limits.ingress_rate > 0 {
        limited.push(Some(host));
    }
    if limits.egress_rate > 0 {
        limited.push(
            rtnl.link_by_name(&detour_name(call))
                .map_err(NativeError::system(action))?,
        );
    }
    for link in limited {
        let disciplines = match &link {
            Some(link) => rtnl
                .disciplines(link.index)
                .map_err(NativeError::system(action))?,
            None => Vec::new(),
        };
        if !disciplines.iter().any(|name| name == "tbf") {
            return Err(NativeError::Check("Failed to find qdisc".to_owned()));
        }
    }
    Ok(())
}

/// Returns the node's end of the pod's interface, which the chain must have created.
fn node_end(rtnl: &mut Rtnl, call: &Call<'_>, result: &CniResult) -> Result<Link, NativeError> {
    let namespace = call.open_netns()?;
    let action = "find the host end of the pod's interface";
    let inside = netns::inside(namespace.as_fd(), || {
        Rtnl::open()?.link_by_name(call.if_name)
    })
    .map_err(NativeError::system(action))?;
    let peer = inside.and_then(|link| link.peer);
    let link = match peer {
        Some(index) => rtnl
            .link_by_index(index)
            .map_err(NativeError::system(action))?,
        None => None,
    };
    link.filter(|link| {
        result
            .interfaces
            .iter()
            .any(|i| i.sandbox.is_empty() && i.name == link.name)
    })
    .ok_or_else(|| {
        NativeError::Config(format!(
            "container interface {} has no veth peer",
            call.if_name
        ))
    })
}

fn detour_name(call: &Call<'_>) -> String {
    let mut name = hash_name("bwp", call.network, call.container_id);
    name.truncate(MAX_NAME);
    name
}
