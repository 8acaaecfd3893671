//! How the image store is set up.

use std::path::PathBuf;
use std::time::Duration;

use crate::unpack::UNPACK_MEMORY;
use crate::{
    KeyFiles, LazySettings, Limits, NamespaceCredentials, Pace, Platform, PolicyFiles,
    RegistriesFile, StoreForm, admission, registry,
};

/// Settings of an image store. `Config::new` gives the defaults for a root directory.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where images live. Belongs to one process at a time.
    pub root: PathBuf,
    /// Directories with registry settings in containerd's `certs.d` layout, searched in order;
    /// the first that knows a registry decides. Read at each pull.
    pub registry_dirs: Vec<PathBuf>,
    /// Where names lead, and what short ones stand for. Read at each pull.
    pub registries: RegistriesFile,
    /// Docker `config.json` or `.dockercfg` files with the node's own credentials, read at
    /// each pull, the first match wins.
    pub credential_files: Vec<PathBuf>,
    /// The credentials of pod namespaces.
    pub namespace_credentials: NamespaceCredentials,
    /// Hosts that a registry may send us to whatever their address: token servers, and stores of
    /// blobs.
    pub internal_hosts: Vec<String>,
    /// The platform to choose from a multi-platform image.
    pub platform: Platform,
    /// What layers that come become on disk.
    pub store: StoreForm,
    /// Which layers are mounted while they are fetched, and how they come.
    pub lazy: LazySettings,
    /// Keep the compressed layers after unpacking.
    pub keep_blobs: bool,
    /// Connections that download from one registry at the same time, over all pulls.
    pub max_connections: usize,
    /// Connections that download one large blob together.
    pub connections_per_blob: usize,
    /// Layers that are unpacked at the same time, over all pulls; those that wait for bytes
    /// don't count.
    pub max_unpacks: usize,
    /// Bytes of memory that layers may use together while they are unpacked: buffers and decompression windows.
    /// Belongs to the process: the store that was opened or reconfigured last decides.
    pub unpack_memory: u64,
    /// A download that gets no byte for this long is given up and tried again; a client that sends or
    /// takes none is given up.
    pub progress_timeout: Duration,
    /// Bytes per second that each connection must bring on average over `progress_timeout`, and each
    /// client must send or take.
    pub min_speed: u64,
    /// A pull that nobody has waited for in so long ends. What it has downloaded stays for the
    /// next try.
    pub abandon_after: Duration,
    /// How often a failed request is tried again before the pull fails.
    pub retries: u32,
    /// The first pause between tries; it doubles with each.
    pub retry_pause: Duration,
    /// Images that the kubelet must not collect: names, with `*` at either end or both.
    pub pinned: Vec<String>,
    /// Which images may be used.
    pub policies: PolicyFiles,
    /// A directory with files that say where signatures of images are beside their registry.
    pub signature_stores: Option<PathBuf>,
    /// What opens encrypted layers.
    pub keys: KeyFiles,
    /// How long what a broken-off pull left behind is kept for its next try.
    pub orphan_grace: Duration,
    /// Bounds on what an image may ask for.
    pub limits: Limits,
    /// The SELinux label that layers have, which all containers may read. Only where the kernel has SELinux;
    /// read when the store is opened.
    pub label: Option<String>,
}

impl Config {
    /// The defaults, with everything below `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            root: root.into(),
            registry_dirs: Vec::new(),
            registries: RegistriesFile::default(),
            credential_files: Vec::new(),
            namespace_credentials: NamespaceCredentials::default(),
            internal_hosts: Vec::new(),
            platform: Platform::host(),
            store: StoreForm::Files,
            lazy: LazySettings::default(),
            keep_blobs: false,
            max_connections: 8,
            connections_per_blob: 4,
            max_unpacks: cores.clamp(2, 8),
            unpack_memory: UNPACK_MEMORY,
            progress_timeout: Duration::from_mins(1),
            min_speed: 4 << 10,
            abandon_after: Duration::from_mins(10),
            retries: 5,
            retry_pause: Duration::from_millis(500),
            pinned: Vec::new(),
            policies: PolicyFiles::default(),
            signature_stores: None,
            keys: KeyFiles::default(),
            orphan_grace: Duration::from_hours(24),
            limits: Limits::default(),
            label: None,
        }
    }

    /// The speed that is asked of a stream of a client's that begins.
    pub fn pace(&self) -> Pace {
        Pace::new(self.min_speed, self.progress_timeout)
    }

    /// The part that says how registries are asked.
    pub(crate) fn registry(&self) -> registry::Settings {
        registry::Settings {
            dirs: self.registry_dirs.clone(),
            registries: self.registries.clone(),
            credential_files: self.credential_files.clone(),
            namespace_credentials: self.namespace_credentials.clone(),
            internal_hosts: self.internal_hosts.clone(),
            max_connections: self.max_connections,
            progress_timeout: self.progress_timeout,
            min_speed: self.min_speed,
            retries: self.retries,
            retry_pause: self.retry_pause,
            manifest_bytes: self.limits.manifest_bytes,
        }
    }

    /// The part that decides on images.
    pub(crate) fn admission(&self) -> admission::Settings {
        admission::Settings {
            registry: self.registry(),
            policies: self.policies.clone(),
            signature_stores: self.signature_stores.clone(),
            keys: self.keys.clone(),
        }
    }
}
