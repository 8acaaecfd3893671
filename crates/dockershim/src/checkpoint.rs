//! What is known about a sandbox without the engine: one file per sandbox, in the format of
//! cri-dockerd, so that a node can move from it and back to it with its pods running.
//!
//! The file outlives a container that is removed behind our back. That is what it is for: the
//! pod's network can still be undone, and the kubelet still hears of the sandbox and asks for it.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use orlop_cri::v1::{NamespaceMode, PodSandboxConfig, Protocol};
use serde::{Deserialize, Serialize};

/// The directory of checkpoints.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    dir: PathBuf,
}

/// One sandbox, as its file has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    version: String,
    /// The pod's name.
    pub(crate) name: String,
    /// The pod's namespace.
    pub(crate) namespace: String,
    /// What its network needs.
    #[serde(default)]
    pub(crate) data: Data,
    checksum: u64,
}

/// What a sandbox's network needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Data {
    /// Ports of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) port_mappings: Option<Vec<Port>>,
    /// Whether the pod is in the host's network.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) host_network: bool,
}

/// A port of the host that leads to a pod.
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
/// A larger file is no checkpoint.
const LARGEST: u64 = 1 << 20;

impl Checkpoint {
    /// What is to be remembered of a sandbox.
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

    fn read(text: &[u8]) -> Result<Self, String> {
        let read: Self = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if read.checksum != read.data.checksum() {
            return Err("its checksum is wrong".to_owned());
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
    /// FNV-1a over the data as cri-dockerd's printer spells it out, types included. The text is
    /// part of the format: files with another checksum are thrown away there.
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

impl Checkpoints {
    /// The checkpoints below cri-dockerd's root directory.
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        let dir = root.join("sandbox");
        std::fs::create_dir_all(&dir)?;
        Ok(Self { dir })
    }

    /// Writes one whole or not at all.
    pub(crate) fn write(&self, id: &str, checkpoint: &Checkpoint) -> io::Result<()> {
        let bytes = serde_json::to_vec(checkpoint)?;
        // Names with a dot in front are passed over by those who list the directory.
        let unfinished = self.dir.join(format!(".{id}.new"));
        std::fs::write(&unfinished, bytes)?;
        std::fs::rename(&unfinished, self.path(id)?)
    }

    /// Reads one. `None` if there is none; one that is damaged is an error.
    pub(crate) fn read(&self, id: &str) -> io::Result<Option<Checkpoint>> {
        let path = self.path(id)?;
        let text = match std::fs::File::open(&path) {
            Ok(file) => {
                use std::io::Read as _;
                let mut text = Vec::new();
                file.take(LARGEST).read_to_end(&mut text)?;
                text
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        Checkpoint::read(&text).map(Some).map_err(|problem| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{} cannot be used: {problem}", path.display()),
            )
        })
    }

    /// Forgets one, if it is there.
    pub(crate) fn remove(&self, id: &str) -> io::Result<()> {
        match std::fs::remove_file(self.path(id)?) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    /// The sandboxes that have one.
    pub(crate) fn ids(&self) -> io::Result<Vec<String>> {
        let mut ids = Vec::new();
        for entry in std::fs::read_dir(&self.dir)? {
            if let Ok(name) = entry?.file_name().into_string()
                && is_id(&name)
            {
                ids.push(name);
            }
        }
        ids.sort();
        Ok(ids)
    }

    fn path(&self, id: &str) -> io::Result<PathBuf> {
        if is_id(id) {
            return Ok(self.dir.join(id));
        }
        let problem = format!("{id:?} is no sandbox id");
        Err(io::Error::new(io::ErrorKind::InvalidInput, problem))
    }
}

/// Whether a text may be the id of a container: it becomes part of paths.
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
        use orlop_cri::v1::{PodSandboxMetadata, PortMapping};
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

    #[test]
    fn damaged_files_are_told_from_missing_ones() {
        let dir = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::open(dir.path()).unwrap();
        assert_eq!(checkpoints.read("abc").unwrap(), None);
        std::fs::write(
            dir.path().join("sandbox/abc"),
            THEIRS[0].replace("28}", "29}"),
        )
        .unwrap();
        let error = checkpoints.read("abc").unwrap_err();
        assert!(error.to_string().contains("checksum"), "{error}");
        let good = Checkpoint::read(THEIRS[1].as_bytes()).unwrap();
        checkpoints.write("abc", &good).unwrap();
        assert_eq!(checkpoints.read("abc").unwrap(), Some(good));
        assert_eq!(checkpoints.ids().unwrap(), ["abc"]);
        checkpoints.remove("abc").unwrap();
        checkpoints.remove("abc").unwrap();
        assert!(checkpoints.ids().unwrap().is_empty());
        assert!(checkpoints.read("../x").is_err() && checkpoints.remove(".x").is_err());
    }
}
