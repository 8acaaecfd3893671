//! What the administrator can set.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Cidr;

/// How [`crate::Networks`] works.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where the networks are described; `/etc/cni/net.d`.
    pub conf_dir: PathBuf,
    /// More configuration directories, of runtime handlers, loaded and
    /// watched from the start. Others are loaded when first asked for.
    pub handler_conf_dirs: Vec<PathBuf>,
    /// Where plugin programs are, first match wins; `/opt/cni/bin`, `/usr/lib/cni`.
    pub bin_dirs: Vec<PathBuf>,
    /// Where results are kept for other tools, in libcni's layout; `/var/lib/cni`.
    pub cache_dir: PathBuf,
    /// Where what is attached is written down before it is done. On a file
    /// system that outlives a reboot, a reboot leaks no address either.
    pub state_dir: PathBuf,
    /// When standard plugins are done in process.
    pub in_process: InProcess,
    /// Standard plugins whose programs are to be run all the same, by type:
    /// a network that uses one is not done in process.
    pub pinned: Vec<String>,
    /// How many of the networks in `conf_dir` a pod is attached to: the first
    /// ones by file name.
    pub max_networks: usize,
    /// How long a plugin may take for one verb.
    pub plugin_timeout: Duration,
    /// How long a network that was ready stays so when a STATUS fails.
    pub status_grace: Duration,
    /// Which address of a dual-stack pod is its primary one.
    pub ip_preference: IpPreference,
    /// The network used where `conf_dir` describes none (a file that cannot be
    /// used is no reason to take another network than it says). `None`: the node is
    /// not ready then. A node whose network is installed later (by a
    /// DaemonSet) wants `None`, or early pods land on the wrong network.
    pub default_network: Option<DefaultNetwork>,
    /// A conflist template written to `conf_dir` by
    /// [`crate::Networks::set_pod_cidr`].
    pub conf_template: Option<PathBuf>,
}

impl Config {
    /// The usual places, with its state below `state_dir`.
    pub fn new(state_dir: impl Into<PathBuf>) -> Self {
        Self {
            conf_dir: "/etc/cni/net.d".into(),
            handler_conf_dirs: Vec::new(),
            bin_dirs: vec!["/opt/cni/bin".into(), "/usr/lib/cni".into()],
            cache_dir: "/var/lib/cni".into(),
            state_dir: state_dir.into(),
            in_process: InProcess::Auto,
            pinned: Vec::new(),
            max_networks: 1,
            plugin_timeout: Duration::from_mins(1),
            status_grace: Duration::from_secs(30),
            ip_preference: IpPreference::Cni,
            default_network: None,
            conf_template: None,
        }
    }
}

/// When the standard plugins are done in process rather than by their programs.
///
/// A network's own configuration can say otherwise with the key
/// `"orlop.inProcess"` beside its `"plugins"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InProcess {
    /// Where the network's whole chain can be.
    #[default]
    Auto,
    /// Always; a network whose chain cannot be is refused.
    Always,
    /// Never.
    Never,
}

/// Which of a pod's addresses is its primary one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IpPreference {
    /// In the order of the plugin's result.
    #[default]
    Cni,
    /// IPv4 first.
    Ipv4,
    /// IPv6 first.
    Ipv6,
}

/// The network used where no other is described: a bridge with addresses from
/// `subnets`, masqueraded towards the outside, with port mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultNetwork {
    /// The network's name.
    pub name: String,
    /// The bridge's name.
    pub bridge: String,
    /// One subnet per address family wanted.
    pub subnets: Vec<Cidr>,
    /// Where its addresses are reserved, in the host-local plugin's layout.
    pub data_dir: PathBuf,
    /// The interfaces' MTU, the kernel's default if `None`.
    pub mtu: Option<u32>,
}

impl Default for DefaultNetwork {
    /// `orlop` on the bridge `orlop0`, 10.85.0.0/16.
    fn default() -> Self {
        let subnet = Cidr::new([10, 85, 0, 0].into(), 16);
        Self {
            name: "orlop".to_owned(),
            bridge: "orlop0".to_owned(),
            subnets: subnet.into_iter().collect(),
            data_dir: "/var/lib/cni/networks".into(),
            mtu: None,
        }
    }
}
