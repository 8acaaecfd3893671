//! `host-local`: reserves addresses with files in a directory, with the same files and lock as the plugin's program.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::address_store::Store;
use super::call::Call;
use super::dns::read_resolv_conf;
use super::range::{Range, RangeConf, RangeSet, refuse_overlaps};
use crate::Cidr;
use crate::cni::{CniResult, IpConfig, Route};
use crate::error::NativeError;

#[derive(Debug, Deserialize)]
struct Conf {
    ipam: IpamConf,
    #[serde(default, rename = "runtimeConfig")]
    runtime: RuntimeConf,
    #[serde(default)]
    args: Args,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct IpamConf {
    #[serde(default)]
    ranges: Vec<Vec<RangeConf>>,
    /// The older form: one range among the other keys.
    #[serde(default)]
    subnet: Option<Cidr>,
    #[serde(default)]
    range_start: Option<IpAddr>,
    #[serde(default)]
    range_end: Option<IpAddr>,
    #[serde(default)]
    gateway: Option<IpAddr>,
    #[serde(default)]
    routes: Vec<Route>,
    #[serde(default)]
    data_dir: String,
    #[serde(default)]
    resolv_conf: String,
}

#[derive(Debug, Default, Deserialize)]
struct RuntimeConf {
    #[serde(default, rename = "ipRanges")]
    ranges: Vec<Vec<RangeConf>>,
    #[serde(default)]
    ips: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Args {
    #[serde(default)]
    cni: CniArgs,
}

#[derive(Debug, Default, Deserialize)]
struct CniArgs {
    #[serde(default)]
    ips: Vec<String>,
}

const DEFAULT_DATA_DIR: &str = "/var/lib/cni/networks";

pub(super) fn add(call: &Call<'_>) -> Result<CniResult, NativeError> {
    let conf: Conf = call.conf()?;
    let sets = range_sets(&conf)?;
    let mut requested = requested(call, &conf)?;
    let dns = match conf.ipam.resolv_conf.as_str() {
        "" => crate::cni::Dns::default(),
        path => read_resolv_conf(Path::new(path))?,
    };
    let mut store = open(call, &conf)?;
    let mut given = Vec::new();
    let outcome = give(call, &mut store, &sets, &mut requested, &mut given);
    if let Err(error) = outcome {
        for address in given.iter().map(|ip: &IpConfig| ip.address.address()) {
            store.release(address);
        }
        return Err(error);
    }
    Ok(CniResult {
        ips: given,
        routes: conf.ipam.routes,
        dns,
        ..CniResult::default()
    })
}

pub(super) fn delete(call: &Call<'_>) -> Result<(), NativeError> {
    let conf: Conf = call.conf()?;
    let mut store = open(call, &conf)?;
    for address in store.held_by(call.container_id, call.if_name) {
        store.release(address);
    }
    Ok(())
}

pub(super) fn check(call: &Call<'_>) -> Result<(), NativeError> {
    let conf: Conf = call.conf()?;
    let store = open(call, &conf)?;
    if store.held_by(call.container_id, call.if_name).is_empty() {
        return Err(NativeError::Check(format!(
            "host-local: Failed to find address added by container {}",
            call.container_id
        )));
    }
    Ok(())
}

/// Reports whether the configuration can be used. Exhausted addresses do not make the node unready: its pods keep
/// running, and new ones get an error.
pub(super) fn status(call: &Call<'_>) -> Result<(), NativeError> {
    range_sets(&call.conf()?).map(drop)
}

/// Releases the addresses of all attachments except the valid ones.
pub(super) fn collect(call: &Call<'_>, valid: &[(String, String)]) -> Result<(), NativeError> {
    let conf: Conf = call.conf()?;
    let mut store = open(call, &conf)?;
    for (address, id, if_name) in store.all() {
        if !valid
            .iter()
            .any(|(v, name)| *v == id && (if_name.is_empty() || *name == if_name))
        {
            store.release(address);
        }
    }
    Ok(())
}

fn give(
    call: &Call<'_>,
    store: &mut Store,
    sets: &[RangeSet],
    requested: &mut Vec<IpAddr>,
    given: &mut Vec<IpConfig>,
) -> Result<(), NativeError> {
    let held = store.held_by(call.container_id, call.if_name);
    for (index, set) in sets.iter().enumerate() {
        let wanted = requested
            .iter()
            .position(|address| set.containing(*address).is_some());
        let (range, address) = if let Some(at) = wanted {
            take(call, store, set, index, requested.remove(at))?
        } else {
            if let Some(address) = held.iter().find(|a| set.containing(**a).is_some()) {
                let why = format!(
                    "{address} has been allocated to {}, duplicate allocation is not allowed",
                    call.container_id
                );
                return Err(refused(index, why));
            }
            next_free(call, store, set, index)?
        };
        // Every address fits its subnet's prefix.
        let with_prefix = Cidr::new(address, range.subnet.prefix()).unwrap_or(Cidr::host(address));
        given.push(IpConfig {
            interface: None,
            address: with_prefix,
            gateway: Some(range.gateway),
        });
    }
    if requested.is_empty() {
        return Ok(());
    }
    let left: Vec<_> = requested.iter().map(ToString::to_string).collect();
    Err(NativeError::Conflict(format!(
        "failed to allocate all requested IPs: {}",
        left.join(" ")
    )))
}

/// Reserves one requested address.
fn take<'a>(
    call: &Call<'_>,
    store: &mut Store,
    set: &'a RangeSet,
    index: usize,
    address: IpAddr,
) -> Result<(&'a Range, IpAddr), NativeError> {
    let not_available = || {
        let ranges = set.describe();
        format!("requested IP address {address} is not available in range set {ranges}")
    };
    let range = set
        .containing(address)
        .ok_or_else(|| refused(index, not_available()))?;
    if address == range.gateway {
        let why = format!("requested ip {address} is subnet's gateway");
        return Err(refused(index, why));
    }
    if !store.reserve(call.container_id, call.if_name, address, index)? {
        return Err(refused(index, not_available()));
    }
    Ok((range, address))
}

fn next_free<'a>(
    call: &Call<'_>,
    store: &mut Store,
    set: &'a RangeSet,
    index: usize,
) -> Result<(&'a Range, IpAddr), NativeError> {
    for (range, address) in set.after(store.last_reserved(index)) {
        if store.reserve(call.container_id, call.if_name, address, index)? {
            return Ok((range, address));
        }
    }
    Err(NativeError::Exhausted(set.describe()))
}

fn open(call: &Call<'_>, conf: &Conf) -> Result<Store, NativeError> {
    let dir = directory(call, conf);
    let action = format!("lock the addresses in {}", dir.display());
    Store::open(dir).map_err(NativeError::system(action))
}

fn refused(range_set: usize, why: String) -> NativeError {
    NativeError::Conflict(format!("failed to allocate for range {range_set}: {why}"))
}

fn range_sets(conf: &Conf) -> Result<Vec<RangeSet>, NativeError> {
    let older = conf.ipam.subnet.map(|subnet| {
        let mut range = serde_json::json!({ "subnet": subnet });
        for (key, value) in [
            ("rangeStart", conf.ipam.range_start),
            ("rangeEnd", conf.ipam.range_end),
            ("gateway", conf.ipam.gateway),
        ] {
            if let Some(value) = value {
                range[key] = serde_json::json!(value);
            }
        }
        range
    });
    let older: Option<RangeConf> = older
        .map(serde_json::from_value)
        .transpose()
        .map_err(|error| NativeError::Config(error.to_string()))?;
    let sets = conf
        .runtime
        .ranges
        .iter()
        .cloned()
        .chain(older.map(|range| vec![range]))
        .chain(conf.ipam.ranges.iter().cloned())
        .enumerate()
        .map(|(index, set)| {
            RangeSet::new(&set)
                .map_err(|why| NativeError::Config(format!("invalid range set {index}: {why}")))
        })
        .collect::<Result<Vec<_>, _>>()?;
    if sets.is_empty() {
        return Err(NativeError::Config("no IP ranges specified".to_owned()));
    }
    refuse_overlaps(&sets)?;
    Ok(sets)
}

/// Returns the requested addresses from all sources.
fn requested(call: &Call<'_>, conf: &Conf) -> Result<Vec<IpAddr>, NativeError> {
    call.arg("IP")
        .into_iter()
        .chain(conf.args.cni.ips.iter().map(String::as_str))
        .chain(conf.runtime.ips.iter().map(String::as_str))
        .map(|text| {
            // The prefix is optional and ignored: the range determines it.
            let address = text.split('/').next().unwrap_or_default();
            address
                .parse()
                .map_err(|_| NativeError::Config(format!("cannot understand ip: {text:?}")))
        })
        .collect()
}

fn directory(call: &Call<'_>, conf: &Conf) -> PathBuf {
    let dir = match conf.ipam.data_dir.as_str() {
        "" => DEFAULT_DATA_DIR,
        dir => dir,
    };
    Path::new(dir).join(call.network)
}
