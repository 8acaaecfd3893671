//! Network settings of the administrator.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Cidr;

/// Configuration of [`crate::Networks`].
#[derive(Debug, Clone)]
pub struct Config {
    /// Directory of the network configurations; `/etc/cni/net.d`.
    pub conf_dir: PathBuf,
    /// More configuration directories, of runtime handlers, loaded and watched from the start. Other directories are
    /// loaded at first use.
    pub handler_conf_dirs: Vec<PathBuf>,
    /// Directories of the plugin programs, first match wins; `/opt/cni/bin`, `/usr/lib/cni`.
    pub bin_dirs: Vec<PathBuf>,
    /// Directory of the results for other tools, in libcni's layout; `/var/lib/cni`.
    pub cache_dir: PathBuf,
    /// Directory of the journal, which records each attachment before it is made. On a file system that survives a
    /// reboot, a reboot does not leak addresses either.
    pub state_dir: PathBuf,
    /// When standard plugins run in process.
    pub in_process: InProcess,
    /// Types of standard plugins that must run as programs: a network that uses one does not run in process.
    pub pinned: Vec<String>,
    /// Number of networks in `conf_dir` to which a pod is attached: the first ones by file name.
    pub max_networks: usize,
    /// Timeout of a plugin for one command.
    pub plugin_timeout: Duration,
    /// Grace period in which a ready network stays ready after a failed STATUS.
    pub status_grace: Duration,
    /// The address of a dual-stack pod that is its primary one.
    pub ip_preference: IpPreference,
    /// The network used if `conf_dir` describes none; a file that cannot be used does not count as none. With `None`
    /// the node is not ready in that case. A node whose network is installed later (by a DaemonSet) needs `None`, or
    /// early pods land on the wrong network.
    pub default_network: Option<DefaultNetwork>,
    /// A conflist template written to `conf_dir` by
    /// [`crate::Networks::set_pod_cidr`].
    pub conf_template: Option<PathBuf>,
}

impl Config {
    /// Creates the configuration with the usual directories and the state below `state_dir`.
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

/// When the standard plugins run in process instead of as programs.
///
/// A network's own configuration can say otherwise with the key
/// `"orlop.inProcess"` next to its `"plugins"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InProcess {
    /// If the whole chain of the network can run in process.
    #[default]
    Auto,
    /// Always; a network whose chain cannot run in process is refused.
    Always,
    /// Never.
    Never,
}

/// Selection of a pod's primary address.
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

/// The network used if no other is configured: a bridge with addresses from `subnets`, masqueraded towards the
/// outside, with port mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultNetwork {
    /// The network's name.
    pub name: String,
    /// The bridge's name.
    pub bridge: String,
    /// The subnets, one per wanted address family.
    pub subnets: Vec<Cidr>,
    /// Directory of the address reservations, in the host-local plugin's layout.
    pub data_dir: PathBuf,
    /// The interfaces' MTU; the kernel's default if `None`.
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
