//! The configuration of the image store.

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
    /// Directory of the image store. Only one process can use it at a time.
    pub root: PathBuf,
    /// Directories with registry settings in containerd's `certs.d` layout, searched in order;
    /// the first that knows a registry decides. Read at each pull.
    pub registry_dirs: Vec<PathBuf>,
    /// Mirrors and short names of registries. Read at each pull.
    pub registries: RegistriesFile,
    /// Docker `config.json` or `.dockercfg` files with the node's own credentials. Read at each pull; the first match
    /// wins.
    pub credential_files: Vec<PathBuf>,
    /// The credentials of pod namespaces.
    pub namespace_credentials: NamespaceCredentials,
    /// Hosts that a registry may redirect to even if their address is internal: token servers and blob stores.
    pub internal_hosts: Vec<String>,
    /// The platform to choose from a multi-platform image.
    pub platform: Platform,
    /// Form of new layers on disk.
    pub store: StoreForm,
    /// Settings of layers that are mounted while they are downloaded.
    pub lazy: LazySettings,
    /// Keep the compressed layers after unpacking.
    pub keep_blobs: bool,
    /// Maximum number of download connections to one registry, for all pulls together.
    pub max_connections: usize,
    /// Maximum number of connections for one large blob.
    pub connections_per_blob: usize,
    /// Maximum number of layers that are unpacked at the same time, for all pulls together. Layers that wait for
    /// bytes do not count.
    pub max_unpacks: usize,
    /// Bytes of memory that all layers together may use during unpacking: buffers and decompression windows. The
    /// limit is process-wide: the last opened or reconfigured store sets it.
    pub unpack_memory: u64,
    /// Timeout without progress. A download that receives no byte for this long is retried; a client that sends or
    /// reads none is disconnected.
    pub progress_timeout: Duration,
    /// Minimum average speed in bytes per second over `progress_timeout`, for each connection and each client.
    pub min_speed: u64,
    /// A pull without a waiting client is cancelled after this time. The next attempt resumes its downloads.
    pub abandon_after: Duration,
    /// Number of retries of a failed request before the pull fails.
    pub retries: u32,
    /// Pause before the first retry; it doubles with each retry.
    pub retry_pause: Duration,
    /// Images that the kubelet must not garbage collect: names with `*` at either end or both.
    pub pinned: Vec<String>,
    /// Policies that decide which images may be used.
    pub policies: PolicyFiles,
    /// Directory with files that configure signature stores (containers-registries.d).
    pub signature_stores: Option<PathBuf>,
    /// Keys for encrypted layers.
    pub keys: KeyFiles,
    /// Time that the data of an interrupted pull is kept for the next attempt.
    pub orphan_grace: Duration,
    /// Limits on images.
    pub limits: Limits,
    /// SELinux label of layers, which all containers may read. Set only if the kernel has SELinux; read when the
    /// store is opened.
    pub label: Option<String>,
}

impl Config {
    /// Returns the defaults, with all paths below `root`.
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

    /// Returns the minimum pace for a new stream from or to a client.
    pub fn pace(&self) -> Pace {
        Pace::new(self.min_speed, self.progress_timeout)
    }

    /// Returns the settings for requests to registries.
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

    /// Returns the settings that decide whether an image may be pulled.
    pub(crate) fn admission(&self) -> admission::Settings {
        admission::Settings {
            registry: self.registry(),
            policies: self.policies.clone(),
            signature_stores: self.signature_stores.clone(),
            keys: self.keys.clone(),
        }
    }
}
