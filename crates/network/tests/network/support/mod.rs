//! A node of its own for every test: a network namespace, directories, and
//! pods, which all go when the test ends, however it ends.
#![allow(
    clippy::disallowed_methods,
    reason = "tests read what they wrote themselves"
)]
#![allow(dead_code, reason = "the tests of crashes use a part of it")]
#![allow(clippy::unused_self, reason = "what is done on a node reads as such")]

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::Command;

use orlop_network::{
    Attachment, Config, Error, InProcess, Networks, PodNetwork, PortMapping, Protocol, netns,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Where the reference plugins are.
pub(crate) const PLUGINS: &str = "/usr/lib/cni";

/// A network namespace that stands for a node, entered by the calling thread.
pub(crate) struct Node {
    pub(crate) dir: TempDir,
    runtime: Runtime,
}

/// A pod's namespace, held open.
pub(crate) struct Pod {
    pub(crate) attachment: Attachment,
    namespace: OwnedFd,
}

impl Node {
    pub(crate) fn new() -> Self {
        netns::leave_for_new().unwrap();
        // Made after entering: its threads are in the namespace too.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            // Whoever waits for plugins needs none of them.
            .max_blocking_threads(4)
            .enable_all()
            .build()
            .unwrap();
        Self {
            dir: TempDir::new().unwrap(),
            runtime,
        }
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    /// Puts a file into the configuration directory; `DATA` in it becomes the
    /// node's directory for addresses.
    pub(crate) fn write_conf(&self, name: &str, text: &str) {
        let dir = self.path("net.d");
        std::fs::create_dir_all(&dir).unwrap();
        let data = self.path("addresses").display().to_string();
        std::fs::write(dir.join(name), text.replace("DATA", &data)).unwrap();
    }

    pub(crate) fn config(&self, in_process: InProcess) -> Config {
        config_in(self.dir.path(), in_process)
    }

    /// A node with this network, done in process.
    pub(crate) fn with(conf: &str) -> (Self, Networks) {
        let node = Self::new();
        node.write_conf("10-net.conflist", conf);
        let networks = node.open(InProcess::Always);
        (node, networks)
    }

    pub(crate) fn open(&self, in_process: InProcess) -> Networks {
        Networks::open(self.config(in_process)).unwrap()
    }

    pub(crate) fn block<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Attaches a pod.
    #[track_caller]
    pub(crate) fn attach(&self, networks: &Networks, pod: &Pod) -> PodNetwork {
        self.block(networks.attach(pod.attachment.clone())).unwrap()
    }

    /// Why a pod is not attached.
    #[track_caller]
    pub(crate) fn refusal(&self, networks: &Networks, pod: &Pod) -> Error {
        let refused = self.block(networks.attach(pod.attachment.clone()));
        refused.unwrap_err()
    }

    /// Whether a pod is attached as it was.
    #[track_caller]
    pub(crate) fn check(&self, networks: &Networks, pod: &Pod, network: &PodNetwork) {
        let checked = self.block(networks.check(&pod.attachment, network));
        checked.unwrap();
    }

    /// Detaches a pod.
    #[track_caller]
    pub(crate) fn detach(&self, networks: &Networks, pod: &Pod, network: &PodNetwork) {
        let detached = self.block(networks.detach(&pod.attachment, Some(network)));
        detached.unwrap();
    }

    pub(crate) fn pod(&self, id: &str) -> Pod {
        let namespace = netns::create().unwrap();
        let path = format!("/proc/{}/fd/{}", std::process::id(), namespace.as_raw_fd());
        let mut attachment = Attachment::new(id.parse().unwrap(), path);
        id.clone_into(&mut attachment.pod_name);
        "default".clone_into(&mut attachment.pod_namespace);
        attachment.pod_uid = format!("uid-{id}");
        Pod {
            attachment,
            namespace,
        }
    }

    /// The files of a network's address directory, with their contents.
    pub(crate) fn addresses(&self, network: &str) -> Vec<(String, String)> {
        let dir = self.path("addresses").join(network);
        let mut files: Vec<_> = std::fs::read_dir(dir)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| {
                let name = entry.file_name().into_string().unwrap();
                (name, std::fs::read_to_string(entry.path()).unwrap())
            })
            .collect();
        files.sort();
        files
    }

    /// The addresses that are reserved.
    pub(crate) fn reserved(&self, network: &str) -> Vec<String> {
        let names = self.addresses(network).into_iter().map(|(name, _)| name);
        names
            .filter(|name| name.parse::<std::net::IpAddr>().is_ok())
            .collect()
    }

    /// Waits until nothing but the loopback and `kept` is left of the node's
    /// interfaces.
    pub(crate) fn interfaces_settle(&self, kept: &[&str]) {
        for _ in 0..300 {
            let links: Vec<Value> = serde_json::from_str(&sh("ip -j link")).unwrap();
            let left = links.iter().filter_map(|link| link["ifname"].as_str());
            if left
                .filter(|name| *name != "lo" && !kept.contains(name))
                .count()
                == 0
            {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("interfaces stayed: {}", sh("ip -br link"));
    }
}

impl Pod {
    /// Maps a port of the node's.
    pub(crate) fn map(&mut self, host_port: u16, container_port: u16, protocol: Protocol) {
        let port = port(host_port, container_port, protocol, "");
        self.attachment.port_mappings.push(port);
    }

    pub(crate) fn netns(&self) -> &Path {
        &self.attachment.netns
    }

    /// Runs a command in the pod's namespace.
    pub(crate) fn sh(&self, command: &str) -> String {
        sh(&self.command(command))
    }

    /// The command that runs `command` in the pod's namespace.
    pub(crate) fn command(&self, command: &str) -> String {
        format!("nsenter --net={} {command}", self.netns().display())
    }

    /// Lets go of the namespace, as if the pod had died.
    pub(crate) fn die(self) -> Attachment {
        drop(self.namespace);
        self.attachment
    }
}

/// A port of the node's, at an address or at all.
pub(crate) fn port(
    host_port: u16,
    container_port: u16,
    protocol: Protocol,
    host_ip: &str,
) -> PortMapping {
    PortMapping {
        host_port,
        container_port,
        protocol,
        host_ip: (!host_ip.is_empty()).then(|| host_ip.parse().unwrap()),
    }
}

/// The network with its ports mapped by chains.
pub(crate) fn by_chains(conf: &str) -> String {
    let chains = conf.replace(
        r#""type": "portmap","#,
        r#""type": "portmap", "backend": "iptables","#,
    );
    assert_ne!(chains, conf);
    chains
}

/// A machine outside, which knows nothing of the pods' addresses.
pub(crate) fn outside(node: &Node) -> Pod {
    let outside = node.pod("outside");
    let ns = outside.netns().display().to_string();
    let (peer, ns) = (std::process::id(), ns.rsplit('/').next().unwrap());
    sh(&format!(
        "ip link add out0 type veth peer name out1 && ip link set out1 netns /proc/{peer}/fd/{ns}"
    ));
    sh("ip addr add 192.168.50.1/24 dev out0; ip link set out0 up");
    outside.sh("ip addr add 192.168.50.2/24 dev out1");
    outside.sh("ip link set out1 up");
    outside
}

/// Runs a command in the node's namespace; it must succeed.
pub(crate) fn sh(command: &str) -> String {
    orlop_testkit::process::run_for_text(Command::new("sh").args(["-c", command]))
}

/// Whether a command succeeds.
pub(crate) fn succeeds(command: &str) -> bool {
    Command::new("sh")
        .args(["-c", command])
        .output()
        .unwrap()
        .status
        .success()
}

/// Whether this kernel's bridges know VLANs; if not, the test is noted as skipped.
pub(crate) fn bridges_know_vlans() -> bool {
    let probe = "ip link add vlans0 type bridge vlan_filtering 1 && ip link del vlans0";
    // In a namespace of its own: the caller's may be the machine's.
    let known = std::thread::spawn(move || {
        netns::leave_for_new().unwrap();
        succeeds(probe)
    });
    let known = known.join().unwrap();
    if !known {
        orlop_testkit::machine::note_skip(
            &orlop_testkit::machine::test_name(),
            "the kernel does not support VLANs on bridges (CONFIG_BRIDGE_VLAN_FILTERING)",
        );
    }
    known
}

/// The rules of both families and all tables, without the kernel's own chains.
pub(crate) fn filter_rules() -> String {
    let text = sh("iptables-save; echo -A IPv6:; ip6tables-save");
    let own = |line: &&str| line.starts_with("-A ") || line.starts_with(":CNI");
    text.lines().filter(own).collect::<Vec<_>>().join("\n")
}

/// The configuration of a node with this directory.
fn config_in(dir: &Path, in_process: InProcess) -> Config {
    let mut config = Config::new(dir.join("state"));
    config.conf_dir = dir.join("net.d");
    config.bin_dirs = vec![PLUGINS.into()];
    config.cache_dir = dir.join("cache");
    config.in_process = in_process;
    config
}

/// The networks of a node with this directory.
pub(crate) fn open_in(dir: &Path, in_process: InProcess) -> Networks {
    Networks::open(config_in(dir, in_process)).unwrap()
}

/// The addresses that are masqueraded by sets, of both families, each with whose it is.
pub(crate) fn masqueraded() -> Vec<String> {
    elements("masquerade-")
}

/// The node's ports that lead to pods by maps, of both families: which, whose, and where they lead; and those
/// from which packets come back over the node.
pub(crate) fn mapped() -> Vec<String> {
    [elements("hostports"), elements("marked-")].concat()
}

/// The addresses with rules of a shared chain, of both families, each with whose it is and which rules they are.
pub(crate) fn noted() -> Vec<String> {
    elements("forwarded")
}

/// What the sets and maps have whose names begin so: keys, whose they are, and values.
fn elements(prefix: &str) -> Vec<String> {
    let list = |family: &str| format!("nft -j list table {family} orlop 2>/dev/null");
    let text = sh(&format!("{} || true; {} || true", list("ip"), list("ip6")));
    let tables = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    let objects = tables.flat_map(|table| match table.unwrap()["nftables"].take() {
        Value::Array(objects) => objects,
        other => panic!("{other}"),
    });
    let sets = objects.filter_map(|object| object.get("set").or(object.get("map")).cloned());
    let mut found = Vec::new();
    for set in sets.filter(|set| set["name"].as_str().unwrap().starts_with(prefix)) {
        for element in set["elem"].as_array().into_iter().flatten() {
            let (element, value) = match element {
                Value::Array(pair) => (&pair[0], format!(": {}", words(&pair[1]))),
                element => (element, String::new()),
            };
            let (key, owner) = match element.get("elem") {
                Some(element) => (&element["val"], words(&element["comment"])),
                None => (element, "nobody".to_owned()),
            };
            let words = [words(key), owner, value];
            found.push(words.join(" ").trim().to_owned());
        }
    }
    found.sort();
    found
}

/// A key, or a value, as people read it.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(parts) => match &parts["concat"] {
            Value::Array(parts) => parts.iter().map(words).collect::<Vec<_>>().join(" "),
            other => words(other),
        },
        other => other.to_string(),
    }
}
