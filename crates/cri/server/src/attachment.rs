//! Network attachment of a pod.

use std::path::PathBuf;

use orlop_cri_api::v1::{
    DnsConfig, PodSandboxConfig, PortMapping as AskedPort, Protocol as AskedProtocol,
};
use orlop_network::cni::Dns;
use orlop_network::{Attachment, ContainerId, PortMapping, Protocol};

use crate::fault::Invalid;

/// Builds the attachment of a pod that has its own network namespace.
pub fn attachment(
    id: ContainerId,
    netns: impl Into<PathBuf>,
    config: &PodSandboxConfig,
) -> Result<Attachment, Invalid> {
    let mut attachment = Attachment::new(id, netns);
    let metadata = config.metadata.clone().unwrap_or_default();
    attachment.pod_name = metadata.name;
    attachment.pod_namespace = metadata.namespace;
    attachment.pod_uid = metadata.uid;
    attachment.port_mappings = port_mappings(config)?;
    let annotations = config.annotations.iter();
    let annotations = annotations.map(|(key, value)| (key.clone(), value.clone()));
    attachment
        .annotate(annotations.collect())
        .map_err(|error| Invalid::new("config.annotations", error.to_string()))?;
    attachment.dns = config.dns_config.clone().map(dns);
    let parent = config.linux.as_ref().map(|linux| &linux.cgroup_parent);
    attachment.cgroup_path = parent.filter(|parent| !parent.is_empty()).cloned();
    Ok(attachment)
}

fn dns(config: DnsConfig) -> Dns {
    Dns {
        nameservers: config.servers,
        search: config.searches,
        options: config.options,
        ..Dns::default()
    }
}

/// Converts the port mappings. The kubelet sends every container port; only those with a host port are mapped.
fn port_mappings(config: &PodSandboxConfig) -> Result<Vec<PortMapping>, Invalid> {
    let asked = config.port_mappings.iter().enumerate();
    asked
        .filter(|(_, asked)| asked.host_port > 0)
        .map(|(index, asked)| {
            port_mapping(asked).map_err(|(name, problem)| {
                Invalid::new(format!("config.port_mappings[{index}].{name}"), problem)
            })
        })
        .collect()
}

/// Converts a mapping; the error contains the name of the invalid field and the reason.
fn port_mapping(asked: &AskedPort) -> Result<PortMapping, (&'static str, String)> {
    let port = |name, value: i32| {
        let port = u16::try_from(value).ok().filter(|port| *port > 0);
        port.ok_or_else(|| {
            (
                name,
                format!("{value} is not a port; use a number from 1 to 65535"),
            )
        })
    };
    let host_ip = match asked.host_ip.as_str() {
        "" => None,
        text => Some(
            text.parse()
                .map_err(|_| ("host_ip", format!("{text:?} is not an IP address")))?,
        ),
    };
    Ok(PortMapping {
        host_port: port("host_port", asked.host_port)?,
        container_port: port("container_port", asked.container_port)?,
        protocol: match asked.protocol() {
            AskedProtocol::Tcp => Protocol::Tcp,
            AskedProtocol::Udp => Protocol::Udp,
            AskedProtocol::Sctp => Protocol::Sctp,
        },
        host_ip,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(ports: Vec<AskedPort>) -> Result<Attachment, Invalid> {
        let config = PodSandboxConfig {
            port_mappings: ports,
            ..Default::default()
        };
        attachment("pod".parse().unwrap(), "/run/netns/pod", &config)
    }

    fn port(host: i32, container: i32, host_ip: &str) -> AskedPort {
        AskedPort {
            host_port: host,
            container_port: container,
            host_ip: host_ip.into(),
            ..Default::default()
        }
    }

    #[test]
    fn ports_without_one_of_the_host_are_not_mapped() {
        let made = asked(vec![port(0, 80, "no address"), port(8080, 80, "")]).unwrap();
        let hosts: Vec<_> = made.port_mappings.iter().map(|one| one.host_port).collect();
        assert_eq!(hosts, [8080]);
        assert_eq!(made.cgroup_path, None);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_field() {
        for (wrong, words) in [
            (
                port(70_000, 80, ""),
                "config.port_mappings[1].host_port: 70000 is not a port",
            ),
            (
                port(80, 0, ""),
                "config.port_mappings[1].container_port: 0 is not a port",
            ),
            (
                port(80, 80, "localhost"),
                "config.port_mappings[1].host_ip: \"localhost\" is not an IP address",
            ),
        ] {
            let refused = asked(vec![port(80, 80, "::1"), wrong]).unwrap_err();
            assert!(refused.to_string().starts_with(words), "{refused}");
        }
    }
}
