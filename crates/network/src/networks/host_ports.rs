//! Reservations of host ports by pods.

use std::collections::BTreeMap;
use std::net::IpAddr;

use parking_lot::{Mutex, MutexGuard};

use crate::journal::JournalEntry;
use crate::{Attachment, ContainerId, Error, PortMapping};

/// The host ports of all attached pods.
#[derive(Debug, Default)]
pub(super) struct HostPorts {
    held: Mutex<BTreeMap<ContainerId, Held>>,
}

/// One pod's ports.
#[derive(Debug)]
struct Held {
    /// The pod's name and ID for messages.
    pod: String,
    mappings: Vec<PortMapping>,
}

impl HostPorts {
    pub(super) fn new(entries: impl Iterator<Item = JournalEntry>) -> Self {
        let held = entries
            .map(|entry| entry.attachment)
            .filter(|pod| !pod.port_mappings.is_empty())
            .map(|pod| (pod.id.clone(), Held::by(&pod)))
            .collect();
        Self {
            held: Mutex::new(held),
        }
    }

    /// Reserves a pod's ports; the error names the pod that holds one of them.
    pub(super) fn reserve(&self, pod: &Attachment) -> Result<(), Error> {
        if let Some(mapping) = pod
            .port_mappings
            .iter()
            .find(|m| m.host_port == 0 || m.container_port == 0)
        {
            return Err(Error::Invalid(format!(
                "port 0 cannot be mapped: {}",
                describe(mapping)
            )));
        }
        let mut held = self.lock();
        for (_, theirs) in held.iter().filter(|(holder, _)| **holder != pod.id) {
            for mapping in &pod.port_mappings {
                if theirs.mappings.iter().any(|other| collide(mapping, other)) {
                    return Err(Error::HostPortInUse {
                        port: describe(mapping),
                        holder: theirs.pod.clone(),
                    });
                }
            }
        }
        if !pod.port_mappings.is_empty() {
            held.insert(pod.id.clone(), Held::by(pod));
        }
        Ok(())
    }

    pub(super) fn release(&self, id: &ContainerId) {
        self.lock().remove(id);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ContainerId, Held>> {
        self.held.lock()
    }
}

impl Held {
    fn by(pod: &Attachment) -> Self {
        Self {
            pod: match pod.pod_name.as_str() {
                "" => pod.id.to_string(),
                name => format!("{}/{name} ({})", pod.pod_namespace, pod.id),
            },
            mappings: pod.port_mappings.clone(),
        }
    }
}

fn collide(a: &PortMapping, b: &PortMapping) -> bool {
    a.host_port == b.host_port
        && a.protocol == b.protocol
        && match (specific(a.host_ip), specific(b.host_ip)) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        }
}

/// Converts the wildcard address to `None`: both mean all addresses.
fn specific(address: Option<IpAddr>) -> Option<IpAddr> {
    address.filter(|address| !address.is_unspecified())
}

fn describe(mapping: &PortMapping) -> String {
    let port = mapping.host_port;
    let protocol = mapping.protocol.as_str();
    match mapping.host_ip {
        Some(IpAddr::V6(ip)) => format!("[{ip}]:{port}/{protocol}"),
        Some(ip) => format!("{ip}:{port}/{protocol}"),
        None => format!("{port}/{protocol}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Protocol;

    fn pod(id: &str, host_ip: Option<&str>, protocol: Protocol) -> Attachment {
        let mut pod = Attachment::new(id.parse().unwrap(), "/x");
        pod.port_mappings.push(PortMapping {
            host_port: 80,
            container_port: 8080,
            protocol,
            host_ip: host_ip.map(|ip| ip.parse().unwrap()),
        });
        pod
    }

    #[test]
    fn two_pods_never_hold_one_port() {
        let ports = HostPorts::default();
        ports
            .reserve(&pod("a", Some("10.0.0.1"), Protocol::Tcp))
            .unwrap();
        ports
            .reserve(&pod("a", Some("10.0.0.1"), Protocol::Tcp))
            .unwrap();
        ports
            .reserve(&pod("b", Some("10.0.0.2"), Protocol::Tcp))
            .unwrap();
        ports.reserve(&pod("c", None, Protocol::Udp)).unwrap();
        let error = ports
            .reserve(&pod("d", Some("0.0.0.0"), Protocol::Tcp))
            .unwrap_err();
        assert!(
            error
                .to_string()
                .contains("0.0.0.0:80/tcp is already used by pod a"),
            "{error}"
        );
        ports.release(&"a".parse().unwrap());
        ports.release(&"b".parse().unwrap());
        ports.reserve(&pod("d", None, Protocol::Tcp)).unwrap();
    }
}
