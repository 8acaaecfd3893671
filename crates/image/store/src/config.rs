//! How the image store is set up.

use std::path::PathBuf;
use std::time::Duration;

use crate::unpack::UNPACK_MEMORY;
use crate::{KeyFiles, LazySettings, NamespaceCredentials, Platform, PolicyFiles, RegistriesFile};

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

/// What layers are on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreForm {
    /// A directory with the layer's files.
    Files,
    /// One file of the file system EROFS.
    Erofs,
}

/// Bounds on what an image may ask for.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of one manifest, index or configuration.
    pub manifest_bytes: u64,
    /// Layers of one image. Overlay mounts stop at 500.
    pub layers: usize,
    /// Bytes of one image: its compressed layers and what they hold, together.
    pub image_bytes: u64,
    /// Compressed bytes of one layer.
    pub blob_bytes: u64,
    /// Unpacked bytes of one layer.
    pub layer_bytes: u64,
    /// Files of one layer.
    pub layer_entries: u64,
    /// Bytes of one tar entry's extended header or long name.
    pub header_bytes: u64,
    /// Bytes of one layer's archive that are not content of files: headers, padding and what
    /// stands behind its end.
    pub overhead_bytes: u64,
    /// Bytes of memory for what must be remembered until a layer's end: its directories.
    pub bookkeeping_bytes: u64,
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
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            manifest_bytes: 4 << 20,
            layers: 500,
            image_bytes: 256 << 30,
            blob_bytes: 256 << 30,
            layer_bytes: 512 << 30,
            layer_entries: 8_000_000,
            header_bytes: 1 << 20,
            overhead_bytes: 16 << 30,
            bookkeeping_bytes: 32 << 20,
        }
    }
}

/// Whether `name` matches a pattern with `*` at either end or both.
pub(crate) fn matches_pattern(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(_), Some(_)) => name.contains(pattern.trim_matches('*')),
        (Some(end), None) => name.ends_with(end),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_at_their_ends() {
        assert!(matches_pattern(
            "registry.k8s.io/pause*",
            "registry.k8s.io/pause:3.9"
        ));
        assert!(matches_pattern("*:stable", "a/b:stable"));
        assert!(matches_pattern("*pause*", "x/pause:1"));
        assert!(matches_pattern("a:1", "a:1"));
        assert!(!matches_pattern("a:1", "a:12"));
        assert!(!matches_pattern("*pause", "x/pause:1"));
    }
}
