//! `loopback`: brings up the pod's own loopback interface.

use std::os::fd::AsFd as _;

use super::call::Call;
use crate::cni::{CniResult, Interface, IpConfig, Verb};
use crate::error::NativeError;
use crate::netlink::Rtnl;
use crate::netns;

/// The loopback interface is always called this and always the first one.
const NAME: &str = "lo";
const INDEX: u32 = 1;

pub(super) fn run(call: &Call<'_>) -> Result<Option<CniResult>, NativeError> {
    match call.verb {
        Verb::Add => add(call).map(Some),
        Verb::Check => {
            check(call)?;
            Ok(None)
        }
        // The kernel removes the interface with its namespace.
        Verb::Del | Verb::Status | Verb::Gc => Ok(None),
    }
}

fn add(call: &Call<'_>) -> Result<CniResult, NativeError> {
    let namespace = call.open_netns()?;
    let addresses = netns::inside(namespace.as_fd(), || {
        let mut rtnl = Rtnl::open()?;
        rtnl.set_up(INDEX)?;
        rtnl.addresses(INDEX)
    })
    .map_err(NativeError::system("bring up the pod's loopback interface"))?;
    if let Some(previous) = call.previous()? {
        return Ok(previous);
    }
    let sandbox = call
        .netns
        .map(|path| path.display().to_string())
        .unwrap_or_default();
    let interface = Interface {
        name: NAME.to_owned(),
        mac: "00:00:00:00:00:00".to_owned(),
        sandbox,
        ..Interface::default()
    };
    let ips = addresses
        .iter()
        .map(|address| IpConfig {
            interface: Some(0),
            address: address.address,
            gateway: None,
        })
        .collect();
    Ok(CniResult {
        interfaces: vec![interface],
        ips,
        ..CniResult::default()
    })
}

fn check(call: &Call<'_>) -> Result<(), NativeError> {
    let namespace = call.open_netns()?;
    let link = netns::inside(namespace.as_fd(), || Rtnl::open()?.link_by_index(INDEX))
        .map_err(NativeError::system("inspect the pod's loopback interface"))?;
    match link {
        Some(link) if link.is_up() => Ok(()),
        _ => Err(NativeError::Check("loopback interface is down".to_owned())),
    }
}
