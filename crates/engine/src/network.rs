//! A pod's attachment to the node's network, written down before it is made.

use std::sync::Arc;

use orlop_cri::v1::{DnsConfig, Protocol};
use orlop_network::cni::Dns;
use orlop_network::{Attachment, ContainerId, PortMapping};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::pod::{Event, Pod};

/// Attaches a pod that has a keeper.
pub async fn attach(engine: &Engine, pod: &Arc<Pod>) -> Result<()> {
    let attachment = attachment(engine, pod)?;
    pod.record(Event::Attaching {
        attachment: Box::new(attachment.clone()),
    })
    .await?;
    let network = engine
        .networks
        .attach(attachment)
        .await
        .map_err(|source| Error::Network {
            doing: format!("attaching pod {} to the network", pod.id),
            source,
        })?;
    pod.record(Event::Attached {
        network: Box::new(network),
    })
    .await
}

/// Detaches a pod, if it was ever attached or an attachment was begun. May be repeated.
pub async fn detach(engine: &Engine, pod: &Arc<Pod>) -> Result<()> {
    let now = pod.now();
    let Some(attachment) = now.attachment else {
        return Ok(());
    };
    let done = match &now.network {
        Some(network) => engine.networks.detach(&attachment, Some(network)).await,
        None => engine.networks.detach_noted(&attachment).await,
    };
    done.map_err(|source| Error::Network {
        doing: format!("detaching pod {} from the network", pod.id),
        source,
    })?;
    pod.record_if_possible(Event::Detached).await;
    Ok(())
}

fn attachment(engine: &Engine, pod: &Pod) -> Result<Attachment> {
    let metadata = pod.metadata();
    let mut attachment = Attachment::new(container_id(pod)?, engine.net_pin(pod));
    attachment.pod_name = metadata.name;
    attachment.pod_namespace = metadata.namespace;
    attachment.pod_uid = metadata.uid;
    attachment.port_mappings = port_mappings(pod)?;
    let annotations = pod.config.annotations.iter();
    let annotations = annotations.map(|(key, value)| (key.clone(), value.clone()));
    attachment
        .annotate(annotations.collect())
        .map_err(|error| Error::invalid("config.annotations", error.to_string()))?;
    attachment.dns = pod.config.dns_config.clone().map(dns);
    let parent = pod.linux().cgroup_parent.clone();
    attachment.cgroup_path = (!parent.is_empty()).then_some(parent);
    let handler = engine.runtimes.handler(&pod.handler)?;
    attachment
        .conf_dir
        .clone_from(&handler.settings.cni_conf_dir);
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

fn container_id(pod: &Pod) -> Result<ContainerId> {
    pod.id.as_str().parse().map_err(|source| {
        Error::Internal(format!("pod id {} is no name for CNI: {source}", pod.id)).into()
    })
}

fn port_mappings(pod: &Pod) -> Result<Vec<PortMapping>> {
    let mut mappings = Vec::new();
    for (index, mapping) in pod.config.port_mappings.iter().enumerate() {
        // The kubelet sends every container port; only those with a host port are mapped.
        if mapping.host_port <= 0 {
            continue;
        }
        let port = |name: &str, value: i32| {
            u16::try_from(value)
                .ok()
                .filter(|port| *port > 0)
                .ok_or_else(|| {
                    let field = format!("config.port_mappings[{index}].{name}");
                    Error::invalid(field, format!("{value} is no port; ports are 1 to 65535"))
                })
        };
        let host_ip = match mapping.host_ip.as_str() {
            "" => None,
            text => Some(text.parse().map_err(|_| {
                let field = format!("config.port_mappings[{index}].host_ip");
                Error::invalid(field, format!("{text:?} is no IP address"))
            })?),
        };
        mappings.push(PortMapping {
            host_port: port("host_port", mapping.host_port)?,
            container_port: port("container_port", mapping.container_port)?,
            protocol: match mapping.protocol() {
                Protocol::Tcp => orlop_network::Protocol::Tcp,
                Protocol::Udp => orlop_network::Protocol::Udp,
                Protocol::Sctp => orlop_network::Protocol::Sctp,
            },
            host_ip,
        });
    }
    Ok(mappings)
}
