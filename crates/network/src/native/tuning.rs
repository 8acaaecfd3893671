//! `tuning`: changes settings of a pod's network namespace and interface.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;

use serde::Deserialize;

use super::call::Call;
use super::sysctl;
use crate::MacAddress;
use crate::cni::{CniResult, Verb};
use crate::error::NativeError;
use crate::netlink::Rtnl;
use crate::netns;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Conf {
    #[serde(flatten)]
    own: Settings,
    #[serde(default)]
    data_dir: String,
    #[serde(default)]
    runtime_config: Mac,
    #[serde(default)]
    args: Args,
}

#[derive(Debug, Default, Deserialize)]
struct Mac {
    #[serde(default)]
    mac: Option<MacAddress>,
}

#[derive(Debug, Default, Deserialize)]
struct Args {
    #[serde(default)]
    cni: Settings,
}

#[derive(Debug, Default, Deserialize)]
struct Settings {
    #[serde(default)]
    sysctl: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "empty_is_none")]
    mac: Option<MacAddress>,
    #[serde(default)]
    mtu: Option<u32>,
    #[serde(default)]
    promisc: Option<bool>,
    #[serde(default)]
    allmulti: Option<bool>,
    #[serde(default, rename = "txQLen")]
    tx_queue: Option<u32>,
}

const DEFAULT_DATA_DIR: &str = "/run/cni/tuning";

pub(super) fn run(call: &Call<'_>) -> Result<Option<CniResult>, NativeError> {
    let conf: Conf = call.conf()?;
    match call.verb {
        Verb::Add => add(call, conf).map(Some),
        Verb::Check => check(call, conf).map(|()| None),
        Verb::Del => {
            forget_backup(call, &conf);
            Ok(None)
        }
        Verb::Status | Verb::Gc => Ok(None),
    }
}

fn add(call: &Call<'_>, conf: Conf) -> Result<CniResult, NativeError> {
    let mut result = call.required_previous()?;
    let settings = settings(call, conf)?;
    let namespace = call.open_netns()?;
    netns::inside(namespace.as_fd(), || apply(call.if_name, &settings)).map_err(
        NativeError::system(format!("tune the pod's interface {}", call.if_name)),
    )?;
    let own = |interface: &&mut crate::cni::Interface| {
        interface.name == call.if_name && !interface.sandbox.is_empty()
    };
    for interface in result.interfaces.iter_mut().filter(own) {
        if let Some(mac) = settings.mac {
            interface.mac = mac.to_string();
        }
        if interface.mtu.is_some() {
            interface.mtu = settings.mtu.or(interface.mtu);
        }
    }
    Ok(result)
}

fn apply(if_name: &str, settings: &Settings) -> io::Result<()> {
    for (name, value) in &settings.sysctl {
        sysctl::set(name, value)
            .map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))?;
    }
    let mut rtnl = Rtnl::open()?;
    let link = rtnl.link_by_name(if_name)?.ok_or(io::ErrorKind::NotFound)?;
    if let Some(mac) = settings.mac {
        rtnl.set_mac(link.index, mac)?;
    }
    if let Some(mtu) = settings.mtu {
        rtnl.set_mtu(link.index, mtu)?;
    }
    if settings.promisc == Some(true) {
        rtnl.set_flags(link.index, libc::IFF_PROMISC, true)?;
    }
    if let Some(on) = settings.allmulti {
        rtnl.set_flags(link.index, libc::IFF_ALLMULTI, on)?;
    }
    match settings.tx_queue {
        Some(length) => rtnl.set_tx_queue(link.index, length),
        None => Ok(()),
    }
}

fn check(call: &Call<'_>, conf: Conf) -> Result<(), NativeError> {
    let settings = settings(call, conf)?;
    let namespace = call.open_netns()?;
    let wrong = netns::inside(namespace.as_fd(), || {
        for (name, value) in &settings.sysctl {
            let now = sysctl::get(name)?;
            if now.split_whitespace().ne(value.split_whitespace()) {
                return Ok(Some(format!(
                    "{name} is {now}, but tuning set it to {value}"
                )));
            }
        }
        let link = Rtnl::open()?
            .link_by_name(call.if_name)?
            .ok_or(io::ErrorKind::NotFound)?;
        if settings.mac.is_some_and(|mac| Some(mac) != link.mac) {
            return Ok(Some(format!(
                "the MAC address {} differs from the configured one",
                link.mac_text()
            )));
        }
        if settings.mtu.is_some_and(|mtu| mtu != link.mtu) {
            return Ok(Some(format!(
                "the MTU {} differs from the configured one",
                link.mtu
            )));
        }
        if settings
            .tx_queue
            .is_some_and(|length| length != link.tx_queue)
        {
            return Ok(Some(format!(
                "the transmit queue length {} differs from the configured one",
                link.tx_queue
            )));
        }
        Ok(None)
    })
    .map_err(NativeError::system(format!(
        "inspect the pod's interface {}",
        call.if_name
    )))?;
    wrong.map_or(Ok(()), |wrong| Err(NativeError::Check(wrong)))
}

/// Returns all settings; those of the request override the configuration.
fn settings(call: &Call<'_>, conf: Conf) -> Result<Settings, NativeError> {
    let Conf {
        own,
        runtime_config,
        args: Args { cni },
        ..
    } = conf;
    let asked = match call.arg("MAC") {
        Some(text) => Some(
            text.parse()
                .map_err(|error: crate::mac::InvalidMac| NativeError::Config(error.to_string()))?,
        ),
        None => None,
    };
    let mut sysctl = BTreeMap::new();
    for (name, value) in own.sysctl.into_iter().chain(cni.sysctl) {
        sysctl.insert(path_of(call, &name)?, value);
    }
    let nonzero = |number: &u32| *number != 0;
    Ok(Settings {
        sysctl,
        mac: cni.mac.or(runtime_config.mac).or(asked).or(own.mac),
        mtu: cni.mtu.or(own.mtu).filter(nonzero),
        promisc: cni.promisc.or(own.promisc),
        allmulti: cni.allmulti.or(own.allmulti),
        tx_queue: cni.tx_queue.or(own.tx_queue),
    })
}

/// Converts a setting's name to a path. Pods may only change settings of their network namespace.
fn path_of(call: &Call<'_>, name: &str) -> Result<String, NativeError> {
    // A name with slashes may contain interface names with dots.
    let path = if name.contains('/') {
        name.to_owned()
    } else {
        name.replace('.', "/")
    };
    let path = path.replace("IFNAME", call.if_name);
    let steps_out = path
        .split('/')
        .any(|part| part.is_empty() || part == "." || part == "..");
    if !path.starts_with("net/") || steps_out {
        return Err(NativeError::Config(format!(
            "invalid net sysctl key: {name:?}"
        )));
    }
    Ok(path)
}

/// Removes the backup of the plugin's program, which records changes to undo. The interface disappears, so there is
/// nothing to undo.
fn forget_backup(call: &Call<'_>, conf: &Conf) {
    let dir = if conf.data_dir.is_empty() {
        DEFAULT_DATA_DIR
    } else {
        &conf.data_dir
    };
    let file = Path::new(dir).join(format!("{}_{}.json", call.container_id, call.if_name));
    match std::fs::remove_file(&file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(%error, file = %file.display(), "cannot remove a backup of settings");
        }
        _ => {}
    }
}

fn empty_is_none<'de, D>(deserializer: D) -> Result<Option<MacAddress>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    match Option::<String>::deserialize(deserializer)?.as_deref() {
        None | Some("") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(serde::de::Error::custom),
    }
}
