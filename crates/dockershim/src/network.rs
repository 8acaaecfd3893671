//! Pod networks, set up by CNI in the sandbox's network namespace or by the engine.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use orlop_cri_api::v1::PodSandboxConfig;
use orlop_cri_server::attachment::attachment;
use orlop_network::{Attachment, ContainerId, Networks, PortMapping, Protocol};
use parking_lot::Mutex;

use crate::checkpoint::{Checkpoint, Port};
use crate::config::{Config, Hairpin, NetworkPlugin};
use crate::docker::types::Container;
use crate::error::{Error, Result};
use crate::hairpin;

/// The networks of all pods, and their addresses.
#[derive(Debug)]
pub(crate) struct PodNetwork {
    plugin: NetworkPlugin,
    hairpin: Hairpin,
    dual_stack: bool,
    /// The CNI networks; only with the plugin `cni`.
    cni: Option<Networks>,
    /// The addresses of pods whose network this daemon set up.
    addresses: Mutex<HashMap<String, Vec<IpAddr>>>,
}

impl PodNetwork {
    /// Loads the records of existing networks. Blocks.
    pub(crate) fn open(config: &Config) -> Result<Self> {
        let cni = match config.plugin {
            NetworkPlugin::Cni => {
                let opened = Networks::open(config.network.clone());
                Some(opened.map_err(|source| Error::Network {
                    doing: "reading the network records of the pods".to_owned(),
                    source,
                })?)
            }
            NetworkPlugin::None | NetworkPlugin::Bridge => None,
        };
        Ok(Self {
            plugin: config.plugin,
            hairpin: config.hairpin,
            dual_stack: config.dual_stack,
            cni,
            addresses: Mutex::default(),
        })
    }

    /// Returns the CNI networks, if the plugin is `cni`.
    pub(crate) fn cni(&self) -> Option<&Networks> {
        self.cni.as_ref()
    }

    /// Sets up the network of a running sandbox.
    pub(crate) async fn attach(&self, found: &Container, pod: &PodSandboxConfig) -> Result<()> {
        if found.host_config.network_mode == "host" {
            return Ok(());
        }
        match self.plugin {
            NetworkPlugin::None => Ok(()),
            NetworkPlugin::Bridge => hairpin::set(self.hairpin, self.plugin, found.state.pid).await,
            NetworkPlugin::Cni => self.attach_cni(found, pod).await,
        }
    }

    async fn attach_cni(&self, found: &Container, pod: &PodSandboxConfig) -> Result<()> {
        let Some(networks) = &self.cni else {
            return Ok(());
        };
        let namespace = format!("/proc/{}/ns/net", found.state.pid);
        let attachment = attachment(identity(&found.id)?, namespace, pod).map_err(Error::from)?;
        let made = networks.attach(attachment).await;
        let made = made.map_err(|source| Error::Network {
            doing: format!("attaching pod sandbox {} to the network", found.id),
            source,
        })?;
        self.note(&found.id, made.ips);
        Ok(())
    }

    /// Tears down the network of a sandbox, which may be unknown to the engine. Idempotent.
    pub(crate) async fn detach(
        &self,
        id: &str,
        found: Option<&Container>,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<()> {
        let host_network = match (found, checkpoint) {
            (Some(found), _) => found.host_config.network_mode == "host",
            (None, Some(checkpoint)) => checkpoint.data.host_network,
            (None, None) => false,
        };
        let Some(networks) = self.cni.as_ref().filter(|_| !host_network) else {
            return Ok(());
        };
        // A stopped sandbox has no namespace; its pid may be reused by another process.
        let namespace = match found {
            Some(found) if found.state.pid > 0 => format!("/proc/{}/ns/net", found.state.pid),
            _ => String::new(),
        };
        let mut attachment = Attachment::new(identity(id)?, namespace);
        if let Some(checkpoint) = checkpoint {
            attachment.pod_name.clone_from(&checkpoint.name);
            attachment.pod_namespace.clone_from(&checkpoint.namespace);
            let ports = checkpoint.data.port_mappings.iter().flatten();
            attachment.port_mappings = ports.filter_map(of_checkpoint).collect();
        }
        let done = networks.detach(&attachment, None).await;
        done.map_err(|source| Error::Network {
            doing: format!("detaching pod sandbox {id} from the network"),
            source,
        })?;
        self.forget(id);
        Ok(())
    }

    /// Returns the addresses of a sandbox.
    pub(crate) async fn addresses(&self, found: &Container) -> Vec<IpAddr> {
        if found.host_config.network_mode == "host" || !found.state.running {
            return Vec::new();
        }
        let known = self.known(&found.id);
        let mut addresses = match known {
            Some(known) => known,
            None => of_engine(found),
        };
        if addresses.is_empty() && self.plugin == NetworkPlugin::Cni {
            // Another runtime set up this pod's network: read the addresses from its namespace.
            let pid = found.state.pid;
            let seen = orlop_pool::blocking(move || of_namespace(pid)).await;
            addresses = seen.unwrap_or_default();
            if !addresses.is_empty() {
                self.note(&found.id, addresses.clone());
            }
        }
        if !self.dual_stack {
            addresses.truncate(1);
        }
        addresses
    }

    /// Loads the addresses that earlier runs assigned.
    pub(crate) async fn remember(&self) {
        let Some(networks) = &self.cni else {
            return;
        };
        match networks.list().await {
            Ok(entries) => {
                for entry in entries {
                    if let Some(made) = entry.result {
                        self.note(entry.attachment.id.as_str(), made.ips);
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "cannot read the network records of the pods"),
        }
    }

    fn known(&self, id: &str) -> Option<Vec<IpAddr>> {
        let addresses = self.addresses.lock();
        addresses.get(id).cloned()
    }

    fn note(&self, id: &str, addresses: Vec<IpAddr>) {
        let mut all = self.addresses.lock();
        all.insert(id.to_owned(), addresses);
    }

    /// Forgets the addresses of a sandbox.
    pub(crate) fn forget(&self, id: &str) {
        let mut all = self.addresses.lock();
        all.remove(id);
    }
}

fn of_engine(found: &Container) -> Vec<IpAddr> {
    let settings = &found.network_settings;
    let of_networks = settings
        .networks
        .values()
        .flat_map(|network| [&network.ip_address, &network.global_ipv6_address]);
    let mut addresses: Vec<IpAddr> = [&settings.ip_address, &settings.global_ipv6_address]
        .into_iter()
        .chain(of_networks)
        .filter_map(|text| text.parse().ok())
        .collect();
    addresses.dedup();
    let mut seen = HashSet::new();
    addresses.retain(|address| seen.insert(*address));
    addresses.sort_by_key(IpAddr::is_ipv6);
    addresses
}

/// Reads the addresses in a process's network namespace through /proc, without entering it. Blocks.
fn of_namespace(pid: i32) -> Vec<IpAddr> {
    let read = |name: &str| {
        orlop_fs::read_kernel_text(format!("/proc/{pid}/net/{name}")).unwrap_or_default()
    };
    let mut addresses = local_v4(&read("fib_trie"));
    addresses.extend(global_v6(&read("if_inet6")));
    addresses
}

/// Parses the kernel's routing trie: a local address is followed by a `/32 host LOCAL` line.
fn local_v4(trie: &str) -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> = Vec::new();
    let mut last = None;
    for line in trie.lines() {
        let line = line.trim();
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse::<std::net::Ipv4Addr>().ok();
        } else if line.starts_with("/32 host LOCAL")
            && let Some(address) = last.filter(|address| !address.is_loopback())
            && !found.contains(&address.into())
        {
            found.push(address.into());
        }
    }
    found
}

/// Parses `/proc/net/if_inet6`: address, index, length, scope (0 is global), flags, name.
fn global_v6(text: &str) -> Vec<IpAddr> {
    text.lines()
        .filter_map(|line| {
            let fields: Vec<_> = line.split_whitespace().collect();
            let is_global = *fields.get(3)? == "00";
            let bits = u128::from_str_radix(fields.first()?, 16).ok()?;
            is_global.then(|| std::net::Ipv6Addr::from(bits).into())
        })
        .collect()
}

fn of_checkpoint(port: &Port) -> Option<PortMapping> {
    let number = |number: Option<i32>| u16::try_from(number?).ok().filter(|port| *port > 0);
    Some(PortMapping {
        host_port: number(port.host_port)?,
        container_port: number(port.container_port)?,
        protocol: match port.protocol.as_deref() {
            Some("udp") => Protocol::Udp,
            Some("sctp") => Protocol::Sctp,
            _ => Protocol::Tcp,
        },
        host_ip: port.host_ip.parse().ok(),
    })
}

fn identity(id: &str) -> Result<ContainerId> {
    id.parse().map_err(|source| {
        Error::Internal(format!("{id} is not a valid CNI container ID: {source}")).into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_seen_from_inside() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n\
                    \x20    |-- 10.1.0.0\n        /24 link UNICAST\n     |-- 10.1.0.7\n        \
                    /32 host LOCAL\n     |-- 127.0.0.1\n        /32 host LOCAL\nLocal:\n     \
                    |-- 10.1.0.7\n        /32 host LOCAL\n";
        assert_eq!(local_v4(trie), ["10.1.0.7".parse::<IpAddr>().unwrap()]);
        let v6 = "fe800000000000000000000000000001 02 40 20 80 eth0\n\
                  fd000000000000000000000000000002 02 40 00 80 eth0\n\
                  00000000000000000000000000000001 01 80 10 80 lo\n";
        assert_eq!(global_v6(v6), ["fd00::2".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn the_engines_addresses_are_told_once_and_v4_first() {
        let mut found = Container::default();
        found.network_settings.ip_address = "172.17.0.2".into();
        let endpoint = crate::docker::types::Endpoint {
            ip_address: "172.17.0.2".into(),
            global_ipv6_address: "fd00::3".into(),
        };
        found
            .network_settings
            .networks
            .insert("bridge".into(), endpoint);
        let addresses: Vec<_> = of_engine(&found).iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["172.17.0.2", "fd00::3"]);
    }
}
