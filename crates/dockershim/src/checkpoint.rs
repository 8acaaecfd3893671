//! Checkpoint of a pod sandbox: one file per sandbox in the format of cri-dockerd, so that a node can switch between
//! the two with its pods running.
//!
//! The file outlives a container that somebody else removes from the engine. The pod's network can then still be
//! undone, and the kubelet still sees the sandbox and removes it.

use std::fmt::Write as _;

use orlop_cri_api::v1::{NamespaceMode, PodSandboxConfig, Protocol};
use serde::{Deserialize, Serialize};

/// The content of one checkpoint file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    version: String,
    /// The pod's name.
    pub(crate) name: String,
    /// The pod's namespace.
    pub(crate) namespace: String,
    /// The data that teardown of the sandbox's network needs.
    #[serde(default)]
    pub(crate) data: Data,
    checksum: u64,
}

/// The data that teardown of a sandbox's network needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Data {
    /// The host ports of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) port_mappings: Option<Vec<Port>>,
    /// Whether the pod uses the host's network.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) host_network: bool,
}

/// A host port that is forwarded to a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Port {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) protocol: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) container_port: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) host_port: Option<i32>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) host_ip: String,
}

const VERSION: &str = "v1";

impl Checkpoint {
    /// Builds the checkpoint of a sandbox from its CRI configuration.
    pub(crate) fn of(config: &PodSandboxConfig) -> Self {
        let metadata = config.metadata.clone().unwrap_or_default();
        let namespaces = config
            .linux
            .as_ref()
            .and_then(|linux| linux.security_context.as_ref())
            .and_then(|security| security.namespace_options.as_ref());
        let ports: Vec<Port> = config
            .port_mappings
            .iter()
            .map(|mapping| Port {
                protocol: Some(protocol(mapping.protocol()).to_owned()),
                container_port: Some(mapping.container_port),
                host_port: Some(mapping.host_port),
                host_ip: mapping.host_ip.clone(),
            })
            .collect();
        let data = Data {
            port_mappings: (!ports.is_empty()).then_some(ports),
            host_network: namespaces
                .is_some_and(|options| options.network() == NamespaceMode::Node),
        };
        Self {
            version: VERSION.to_owned(),
            name: metadata.name,
            namespace: metadata.namespace,
            checksum: data.checksum(),
            data,
        }
    }

    /// Parses the content of a checkpoint file; a damaged file is an error.
    pub(crate) fn read(text: &[u8]) -> Result<Self, String> {
        let read: Self = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if read.checksum != read.data.checksum() {
            return Err("the checksum does not match".to_owned());
        }
        Ok(read)
    }
}

fn protocol(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
        Protocol::Sctp => "sctp",
    }
}

impl Data {
    /// Computes FNV-1a over the data as cri-dockerd's printer spells it out, types included. The text is part of the
    /// format: cri-dockerd discards files with another checksum.
    fn checksum(&self) -> u64 {
        let mut text = String::from("(core.CheckpointData){PortMappings:([]*config.PortMapping)");
        match &self.port_mappings {
            None => text.push_str("<nil>"),
            Some(ports) => {
                text.push('[');
                for (index, port) in ports.iter().enumerate() {
                    if index > 0 {
                        text.push(' ');
                    }
                    port.spell(&mut text);
                }
                text.push(']');
            }
        }
        let _ = write!(text, " HostNetwork:(bool){}}}", self.host_network);
        fnv1a(text.as_bytes()).into()
    }
}

impl Port {
    fn spell(&self, text: &mut String) {
        let number = |number: Option<i32>| {
            number.map_or_else(|| "<nil>".to_owned(), |number| number.to_string())
        };
        let _ = write!(
            text,
            "<*>{{Protocol:(*config.Protocol){} ContainerPort:(*int32){} HostPort:(*int32){} \
             HostIP:(string){}}}",
            self.protocol.as_deref().unwrap_or("<nil>"),
            number(self.container_port),
            number(self.host_port),
            self.host_ip,
        );
    }
}

fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

/// Whether a text is a valid container id. The id becomes part of paths.
pub(crate) fn is_id(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files as cri-dockerd writes them.
    const THEIRS: [&str; 4] = [
        r#"{"version":"v1","name":"pod","namespace":"ns","data":{},"checksum":2305795928}"#,
        r#"{"version":"v1","name":"pod","namespace":"ns","data":{"host_network":true},"checksum":12315789}"#,
        r#"{"version":"v1","name":"pod","namespace":"ns","data":{"port_mappings":[{"protocol":"tcp","container_port":80,"host_port":8080,"host_ip":"127.0.0.1"},{"protocol":"udp","container_port":53,"host_port":0}]},"checksum":2195515454}"#,
        r#"{"version":"v1","name":"pod","namespace":"ns","data":{"port_mappings":[{"protocol":"sctp","container_port":80}]},"checksum":643861063}"#,
    ];

    #[test]
    fn files_of_cri_dockerd_are_read_and_written_alike() {
        for text in THEIRS {
            let read = Checkpoint::read(text.as_bytes()).unwrap();
            assert_eq!(serde_json::to_string(&read).unwrap(), text);
            assert_eq!((&*read.name, &*read.namespace), ("pod", "ns"));
        }
    }

    #[test]
    fn a_sandbox_with_ports_gets_the_file_that_cri_dockerd_gives_it() {
        use orlop_cri_api::v1::{PodSandboxMetadata, PortMapping};
        let port = |protocol: Protocol, container_port, host_port, host_ip: &str| PortMapping {
            protocol: protocol.into(),
            container_port,
            host_port,
            host_ip: host_ip.into(),
        };
        let config = PodSandboxConfig {
            metadata: Some(PodSandboxMetadata {
                name: "pod".into(),
                namespace: "ns".into(),
                ..Default::default()
            }),
            port_mappings: vec![
                port(Protocol::Tcp, 80, 8080, "127.0.0.1"),
                port(Protocol::Udp, 53, 0, ""),
            ],
            ..Default::default()
        };
        let text = serde_json::to_string(&Checkpoint::of(&config)).unwrap();
        assert_eq!(text, THEIRS[2]);
    }
}
