//! `static`: assigns the addresses in the configuration.

use std::net::IpAddr;

use serde::Deserialize;

use super::call::Call;
use crate::Cidr;
use crate::cni::{CniResult, Dns, IpConfig, Route};
use crate::error::NativeError;

#[derive(Debug, Deserialize)]
struct Conf {
    ipam: IpamConf,
    #[serde(default, rename = "runtimeConfig")]
    runtime: Ips,
    #[serde(default)]
    args: Args,
}

#[derive(Debug, Deserialize)]
struct IpamConf {
    #[serde(default)]
    addresses: Vec<Address>,
    #[serde(default)]
    routes: Vec<Route>,
    #[serde(default)]
    dns: Dns,
}

#[derive(Debug, Deserialize)]
struct Address {
    address: Cidr,
    #[serde(default)]
    gateway: Option<IpAddr>,
}

#[derive(Debug, Default, Deserialize)]
struct Ips {
    #[serde(default)]
    ips: Vec<Cidr>,
}

#[derive(Debug, Default, Deserialize)]
struct Args {
    #[serde(default)]
    cni: CniArgs,
}

#[derive(Debug, Default, Deserialize)]
struct CniArgs {
    #[serde(default)]
    ips: Vec<Cidr>,
    #[serde(default)]
    addresses: Vec<Address>,
    #[serde(default)]
    routes: Vec<Route>,
    #[serde(default)]
    dns: Option<Dns>,
}

pub(super) fn addresses(call: &Call<'_>) -> Result<CniResult, NativeError> {
    let Conf {
        ipam,
        runtime,
        args,
    } = call.conf()?;
    let mut addresses = ipam.addresses;
    if let Some(text) = call.arg("IP") {
        for part in text.split(',') {
            let address = part.parse().map_err(|_| {
                NativeError::Config(format!(
                    "the 'ip' field is expected to be in CIDR notation, got: '{part}'"
                ))
            })?;
            addresses.push(Address {
                address,
                gateway: None,
            });
        }
    }
    if let Some(text) = call.arg("GATEWAY") {
        for part in text.split(',') {
            let gateway: IpAddr = part
                .parse()
                .map_err(|_| NativeError::Config(format!("Invalid gateway address: {part}")))?;
            for address in addresses.iter_mut().filter(|a| a.address.contains(gateway)) {
                address.gateway = Some(gateway);
            }
        }
    }
    // Later sources replace the addresses of earlier ones.
    if !args.cni.addresses.is_empty() {
        addresses = args.cni.addresses;
    }
    for ips in [args.cni.ips, runtime.ips] {
        if !ips.is_empty() {
            addresses = ips
                .into_iter()
                .map(|address| Address {
                    address,
                    gateway: None,
                })
                .collect();
        }
    }
    let routes = if args.cni.routes.is_empty() {
        ipam.routes
    } else {
        args.cni.routes
    };
    Ok(CniResult {
        ips: addresses
            .into_iter()
            .map(|a| IpConfig {
                interface: None,
                address: a.address,
                gateway: a.gateway,
            })
            .collect(),
        routes,
        dns: args.cni.dns.unwrap_or(ipam.dns),
        ..CniResult::default()
    })
}

pub(super) fn check(call: &Call<'_>) -> Result<(), NativeError> {
    let expected = addresses(call)?;
    let previous = call.previous()?.unwrap_or_default();
    for ip in &expected.ips {
        if !previous.ips.iter().any(|other| other.address == ip.address) {
            return Err(NativeError::Check(format!(
                "static: Failed to find address {}",
                ip.address
            )));
        }
    }
    Ok(())
}
