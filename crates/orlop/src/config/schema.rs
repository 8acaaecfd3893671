//! Every key of the configuration: its type, default and documentation.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use orlop_engine::config::{
    CDI_DIRS, CgroupDriver, Cidr, ExecAffinity, ImageStore, InProcess, IpPreference, LogPolicy,
    Platform, Rlimit,
};
use orlop_streaming::{CipherSuite, TlsVersion};

use super::section::{Section, section};
use super::values::{
    AbsolutePath, Backend, ByteSize, CredentialsAt, Group, Hairpin, Interval, Laziness,
    LevelFilter, Limit, LogFormat, MetricsEndpoint, NetworkPlugin, OtlpEndpoint, RuntimeKind,
    Sandboxer, Share, SocketPath, StreamsBy, TraceProtocol, Value,
};

/// Declares the configuration: each table once, the keys above all tables first.
macro_rules! config {
    ($($name:literal $table:ident: $section:ident,)*) => {
        /// The whole configuration of the daemon.
        #[derive(Debug, Clone, PartialEq, Default)]
        pub(crate) struct Config {
            $( pub(crate) $table: $section, )*
            pub(crate) runtimes: BTreeMap<String, Runtime>,
        }

        impl Config {
            /// Every table under its name; the first holds the keys above all tables.
            pub(crate) fn sections(&self) -> impl Iterator<Item = (&'static str, &dyn Section)> {
                [$( ($name, &self.$table as &dyn Section), )*].into_iter()
            }

            /// Has each table take back from `old` what a reload does not apply.
            pub(super) fn keep(&mut self, old: &Self) {
                let backend = old.daemon.backend;
                // Another backend is another daemon.
                let same = backend == self.daemon.backend;
                let is_live = |table: &str| same && is_live(table, backend);
                $( self.$table.keep(old.$table.as_any(), !is_live($name)); )*
                if !is_live(RUNTIMES) {
                    self.runtimes.clone_from(&old.runtimes);
                }
            }

            /// The table of that name, to be written to.
            pub(crate) fn section_mut(&mut self, name: &str) -> Option<&mut dyn Section> {
                match name {
                    $( $name => Some(&mut self.$table), )*
                    _ => None,
                }
            }
        }
    };
}

config! {
    "" daemon: Daemon,
    "grpc" grpc: Grpc,
    "log" log: Log,
    "metrics" metrics: Metrics,
    "web" web: Web,
    "traces" traces: Traces,
    "images" images: Images,
    "network" network: Network,
    "streaming" streaming: Streaming,
    "containers" containers: Containers,
    "keeper" keeper: Keeper,
    "nri" nri: Nri,
    "hooks" hooks: Hooks,
    "docker" docker: Docker,
}

/// The table whose entries are named by the administrator.
pub(crate) const RUNTIMES: &str = "runtimes";

/// Returns whether a reload can apply keys of a table. With the Docker backend, most tables have no such keys, because
/// Docker Engine manages the containers.
pub(super) fn is_live(table: &str, backend: Backend) -> bool {
    backend == Backend::Native || matches!(table, "grpc" | "log" | "metrics" | "web" | "traces")
}

/// Help heading of the flags that only apply to the Docker backend.
pub(super) const DOCKER: &str = "Docker backend";

section! {
    /// Top-level keys: the directories of the daemon, its backend and its threads.
    Daemon {
        /// Persistent data: images, the records of pods and containers, and their writable layers.
        /// Must survive a reboot. Each daemon needs its own directory.
        root: AbsolutePath = built_in("/var/lib/orlop") => restart
            @ flag("root", "DIR", "Directory for persistent data: images and the records of pods [default: /var/lib/orlop]"),
        /// Runtime data: sockets, directories of keepers, namespaces. Must not survive a reboot;
        /// use a tmpfs.
        state: AbsolutePath = built_in("/run/orlop") => restart
            @ flag("state", "DIR", "Directory for runtime data: sockets and other files that do not survive a reboot [default: /run/orlop]"),
        /// The backend that runs the pods: orlop itself (`native`) or the Docker Engine of this
        /// host (`docker`).
        backend: Backend = Backend::Native => restart
            @ flag("backend", "NAME", "Backend that runs the pods: native or docker [default: native]"),
        /// The runtime of a pod that does not request one. Empty: the first of orlop-run, crun and
        /// runc that has a `[runtimes.NAME]` table; if none has one, the first that works on this
        /// host.
        default_runtime: Option<String> = None => live,
        /// The cgroup driver. `auto` selects systemd if systemd is the init system of a host with
        /// cgroup v2, else cgroupfs.
        cgroup_driver: Option<CgroupDriver> = None => restart
            @ flag("cgroup-driver", "DRIVER", "Required cgroup driver of the Docker Engine: systemd or cgroupfs [default: the current one]").below(DOCKER),
        /// Number of threads that serve requests. 0: one per processor, but at least two and at
        /// most four.
        worker_threads: u16 = 0 => restart,
    }
}

section! {
    /// The CRI endpoint of the kubelet and other clients.
    Grpc {
        /// The unix sockets to listen on. Sockets passed by systemd replace them.
        listen: Vec<SocketPath> = vec![built_in("/run/orlop/orlop.sock")] => restart
            @ flag("listen", "SOCKET", "Unix socket to serve the CRI on; can be repeated [default: unix:///run/orlop/orlop.sock]").alias("container-runtime-endpoint"),
        /// The group that may use the sockets, in addition to root. Its members have full control
        /// of the node. Empty: the group of root.
        group: Option<Group> = None => restart,
        /// Maximum size of a message that the daemon receives or sends.
        max_message_size: ByteSize = ByteSize::mib(16) => restart,
        /// Maximum number of open connections. If the limit is reached, a new connection replaces
        /// an idle one: preferably one that never made a call, otherwise one from the process with
        /// the most idle connections. If no connection is idle, the new one waits. One process may
        /// hold at most half of the limit as idle connections.
        max_connections: NonZeroU32 = count(512) => restart,
        /// Maximum number of concurrent calls over all connections. The same number of calls may
        /// wait in the queue. The daemon rejects further calls with RESOURCE_EXHAUSTED.
        max_calls: NonZeroU32 = count(1024) => live,
        /// Maximum number of concurrent calls on one connection.
        max_calls_per_connection: NonZeroU32 = count(512) => restart,
        /// Maximum number of open long-lived streams (events, progress). Streams do not count as
        /// calls.
        max_streams: NonZeroU32 = count(128) => live,
        /// How long the daemon keeps events of pods and containers for clients that reconnect, such
        /// as a kubelet after a restart of the daemon. 0s: it keeps no events. See
        /// `docs/guides/monitoring.md`.
        event_backlog: Interval = Interval::from_secs(300) => live,
        /// Idle time after which the daemon pings a connection. 0s: never.
        keepalive: Interval = Interval::from_secs(120) => restart,
        /// Maximum time to wait for the answer to a ping.
        keepalive_timeout: Interval = Interval::from_secs(20) => restart,
        /// Maximum time for running calls to finish when the daemon stops.
        drain_timeout: Interval = Interval::from_secs(10) => live,
    }
}

section! {
    /// The log of the daemon. The daemon writes it to standard error.
    Log {
        /// The log level: off, error, warn, info, debug or trace, for all of orlop or per module
        /// (`info,orlop_image=debug`). Libraries log at level warn unless they are listed.
        level: LevelFilter = LevelFilter::default() => live
            @ flag("log-level", "LEVEL", "Log level, or one level per module as in info,orlop_image=debug [default: info]"),
        /// The format of log lines. `auto` selects text on a terminal, journal if standard error is
        /// the systemd journal, else json.
        format: LogFormat = LogFormat::Auto => restart,
        /// The daemon logs a call that takes longer than this, once while it runs and once when it
        /// ends. 0s: never. This does not apply to streams.
        slow_call: Interval = Interval::from_secs(10) => live,
    }
}

section! {
    /// Metrics for Prometheus, and the health check.
    Metrics {
        /// The HTTP endpoint of `/metrics`, `/healthz` and `/debug/state`: an address such as
        /// `127.0.0.1:9273`, or `unix:///path`. An address that other machines can reach needs
        /// `tls_cert`, `tls_key`, and `client_ca` or `token_file`. Empty: no endpoint.
        listen: Option<MetricsEndpoint> = None => live
            @ flag("metrics-listen", "ENDPOINT", "Endpoint for metrics: an address or unix:///path [default: none]"),
        /// The TLS certificate chain (PEM) for `listen`. The daemon reloads it when the file
        /// changes. Empty: no TLS.
        tls_cert: Option<AbsolutePath> = None => live,
        /// The private key (PEM) of the certificate.
        tls_key: Option<AbsolutePath> = None => live,
        /// The certificate authority (PEM) of client certificates. Clients must present a
        /// certificate of this authority or, if `token_file` is set, the token. Empty: the daemon
        /// does not accept client certificates.
        client_ca: Option<AbsolutePath> = None => live,
        /// The file with the token that clients must send (`Authorization: Bearer`). The daemon
        /// reads it at each request. Empty: no token.
        token_file: Option<AbsolutePath> = None => live,
        /// Additional names that are allowed in the `Host` header of requests, for an address
        /// without `client_ca` and `token_file`. IP addresses, `localhost` and the host name of the
        /// node are always allowed. The daemon rejects other names, because a web page can make a
        /// browser send such requests.
        names: Vec<String> = Vec::new() => live,
        /// Also export the metrics of calls to the Docker Engine under the names that cri-dockerd
        /// and older kubelets use (such as `kubelet_docker_operations_total`), for existing
        /// dashboards. Only with the docker backend.
        docker_names: bool = false => live,
    }
}

section! {
    /// The web page of the node. See `docs/guides/web.md`.
    Web {
        /// The endpoint of the web page: an address such as `127.0.0.1:9274`, or `unix:///path`,
        /// for access through `ssh -L`. An address that other machines can reach needs `tls_cert`
        /// and `tls_key`. Empty: no web page.
        listen: Option<MetricsEndpoint> = None => live,
        /// The TLS certificate chain (PEM) for `listen`. The daemon reloads it when the file
        /// changes. Empty: no TLS.
        tls_cert: Option<AbsolutePath> = None => live,
        /// The private key (PEM) of the certificate.
        tls_key: Option<AbsolutePath> = None => live,
        /// The file with the login token (`/?token=`). The daemon reads it at each request; a
        /// changed token ends all sessions. Empty: the daemon generates a token and writes the
        /// address to `web.url` in its state directory, which only root can read.
        token_file: Option<AbsolutePath> = None => live,
        /// Additional host names under which browsers may reach this machine. The address itself
        /// and `localhost` are always allowed.
        names: Vec<String> = Vec::new() => live,
    }
}

section! {
    /// OpenTelemetry traces of pod starts. `orlop trace` works without these keys.
    Traces {
        /// The OTLP collector, such as `http://127.0.0.1:4318` or an `https://` URL. Empty: the
        /// daemon sends no traces.
        otlp: Option<OtlpEndpoint> = None => live,
        /// The OTLP protocol: `http` or `grpc`, both with protobuf.
        protocol: TraceProtocol = TraceProtocol::Http => live,
        /// The fraction of traces that the daemon sends for clients without tracing: 0.01 is one in
        /// a hundred. For calls that a client traces, the client's sampling decision applies
        /// instead.
        sample: Share = Share::ALL => live,
        /// The certificate authority (PEM) of an `https://` collector. Empty: the authorities of
        /// the system.
        ca: Option<AbsolutePath> = None => live,
        /// A file with HTTP headers for the collector, one `name: value` per line. The daemon reads
        /// it at its start and at a reload. It sends headers to other machines only over
        /// `https://`. Empty: no headers.
        headers_file: Option<AbsolutePath> = None => live,
    }
}

section! {
    /// Images: registries, signatures, encryption and storage.
    Images {
        /// Directories with a `hosts.toml` per registry host. The daemon reads them at each pull.
        hosts_dirs: Vec<AbsolutePath> = vec![built_in("/etc/orlop/certs.d"), built_in("/etc/containerd/certs.d")] => live,
        /// The registries configuration file, such as `/etc/containers/registries.conf`: mirrors,
        /// blocked registries and short names. The files of its `.d` directory are read after it.
        /// The daemon reads them at each pull. Empty: each image comes from the registry in its
        /// name, and short names belong to Docker Hub. See `docs/guides/registries.md`. With the
        /// docker backend, this file is used only for policy checks and requires
        /// `signature_policy`. See `docs/guides/docker.md`.
        registries_conf: Option<AbsolutePath> = None => live,
        /// Files with the registry credentials of the node, in the format of the `config.json` of
        /// Docker. The word `podman` means the default locations of the `auth.json` of podman. A
        /// pull that has its own credentials does not use these.
        credentials: Vec<CredentialsAt> = Vec::new() => live,
        /// A directory with the credentials of pod namespaces: `NAMESPACE.json`, in the same
        /// format. They take precedence over those of the node. Only pods of that namespace use
        /// them. Empty: namespaces have no credentials.
        credentials_dir: Option<AbsolutePath> = None => live,
        /// Hosts with internal addresses that any registry may redirect the node to or name as its
        /// token server. Other hosts are refused if their address is link-local, loopback (unless
        /// the registry is on loopback), or private (if the registry has a public address).
        internal_hosts: Vec<String> = Vec::new() => live,
        /// The signature policy file, which defines the allowed images, such as
        /// `/etc/containers/policy.json`. The daemon reads it for each pull and each container.
        /// Empty: all images are allowed. See `docs/guides/signatures.md`.
        signature_policy: Option<AbsolutePath> = None => live,
        /// A directory with the policies of pod namespaces: `NAMESPACE.json`. The policy of a
        /// namespace replaces `signature_policy`. Empty: namespaces have no policy.
        signature_policy_dir: Option<AbsolutePath> = None => live,
        /// A directory with the locations of GPG signatures, in the format of
        /// containers-registries.d(5). The daemon reads it at each pull, and only if a policy is
        /// set.
        signature_stores: Option<AbsolutePath> = Some(built_in("/etc/containers/registries.d")) => live,
        /// A directory with private keys (PEM) for encrypted images. It may contain a
        /// directory for each pod namespace with keys and key providers of that namespace. The
        /// daemon reads the keys for each pull and each container. Empty: the daemon rejects
        /// encrypted images. See `docs/guides/encryption.md`.
        decryption_keys: Option<AbsolutePath> = None => live,
        /// The key provider configuration of ocicrypt, for encrypted images of all pods. Empty: no
        /// key providers.
        key_providers: Option<AbsolutePath> = None => live,
        /// The storage format of pulled layers: a directory with files (`files`), or one EROFS
        /// image per layer (`erofs`). EROFS needs Linux 5.15; from Linux 6.12 it needs no loop
        /// device. Existing layers keep their format.
        store: ImageStore = ImageStore::Files => live,
        /// Whether layers in the formats eStargz, zstd:chunked and SOCI are mounted while they are
        /// downloaded, so that containers start before the pull is complete (`auto`). Such a
        /// container reads from the registry while it runs. Its reads fail if the registry is not
        /// reachable. See `docs/guides/lazy-images.md`.
        lazy: Laziness = Laziness::Never => live,
        /// The repositories whose layers may be lazy, such as `registry.example.com/*`. `*` at the
        /// beginning or end matches any text. Empty: all repositories.
        lazy_repositories: Vec<String> = Vec::new() => live,
        /// Layers with a smaller compressed size are downloaded completely.
        lazy_min_layer: ByteSize = ByteSize::mib(4) => live,
        /// How long a container waits for data of a lazy layer before the read fails (`EIO`).
        lazy_timeout: Interval = Interval::from_secs(30) => restart,
        /// Maximum download rate of lazy layers in bytes per second while no container waits for
        /// data. 0: no limit.
        lazy_bandwidth: ByteSize = ByteSize::kib(0) => restart,
        /// Maximum disk usage of lazy layers for background downloads. Above it, the daemon fetches
        /// only data that containers read. 0: no limit.
        lazy_cache: ByteSize = ByteSize::kib(0) => live,
        /// Keep compressed layers after unpacking. Required to push images to another registry.
        keep_blobs: bool = false => live,
        /// Maximum number of concurrent downloads from one registry, over all pulls. The limit for
        /// all registries is 16 times as high. One pull may use two thirds of the downloads, so
        /// that other pulls from the same registry make progress.
        max_downloads: NonZeroU32 = count(6) => live,
        /// Maximum size of a pulled or imported image: the sum of its compressed layers and their
        /// contents.
        max_size: ByteSize = ByteSize::mib(256 << 10) => live,
        /// Maximum memory for the buffers and decompression windows of all layers that are being
        /// unpacked. The daemon rejects a layer with a larger window. One registry may use two
        /// thirds of the memory and one pull half of it.
        unpack_memory: ByteSize = ByteSize::mib(40) => live,
        /// The daemon retries a download that receives no data for this long. It also closes the
        /// connection of a client that sends no data for this long during an import, or receives
        /// none for this long during an export.
        progress_timeout: Interval = Interval::from_secs(60) => live
            @ flag("image-pull-progress-deadline", "DURATION", "Cancel a pull that receives no data for this time [default: 60s]").below(DOCKER),
        /// Minimum bytes per second of each download, on average over `progress_timeout`. The
        /// daemon retries a slower download a few times. It closes the connection of a client that
        /// imports or exports more slowly.
        min_speed: ByteSize = ByteSize::kib(4) => live,
        /// The daemon cancels a pull this long after its last client has disconnected. The next
        /// pull continues with the downloaded data.
        abandon_after: Interval = Interval::from_secs(600) => live,
        /// Images that garbage collection never removes. `*` matches any text.
        pinned: Vec<String> = Vec::new() => live,
        /// The platform to select from a multi-platform image, such as `linux/arm64`. Empty: the
        /// platform of this machine.
        platform: Option<Platform> = None => live,
    }
}

section! {
    /// Pod networking.
    Network {
        /// The CNI configuration directory. The first valid file is the network of the pods.
        /// Without a valid file, pods use a built-in bridge network.
        conf_dir: AbsolutePath = built_in("/etc/cni/net.d") => live
            @ flag("cni-conf-dir", "DIR", "CNI configuration directory [default: /etc/cni/net.d]").below(DOCKER),
        /// Directories with CNI plugins, in search order.
        bin_dirs: Vec<AbsolutePath> = vec![built_in("/opt/cni/bin"), built_in("/usr/lib/cni")] => live
            @ flag("cni-bin-dir", "DIRS", "Directories with CNI plugins, separated by commas [default: /opt/cni/bin,/usr/lib/cni]").commas().below(DOCKER),
        /// The directory for cached results of CNI plugins.
        cache_dir: AbsolutePath = built_in("/var/lib/cni") => restart
            @ flag("cni-cache-dir", "DIR", "Directory for cached results of CNI plugins [default: /var/lib/cni/cache]").below(DOCKER),
        /// When the built-in implementation replaces the standard CNI plugins: for networks that
        /// use only standard plugins (`auto`), `always` or `never`.
        in_process: InProcess = InProcess::Auto => live,
        /// Standard plugins that always run as programs, such as `["portmap"]`. A network that uses
        /// one of them runs all its plugins as programs.
        pinned_plugins: Vec<String> = Vec::new() => live,
        /// Maximum number of networks in `conf_dir` that a pod is attached to: the first ones by
        /// file name. The addresses of the pod come from the first network.
        max_networks: NonZeroU32 = count(1) => live,
        /// How long a ready network stays ready while its plugins report an error.
        status_grace: Interval = Interval::from_secs(30) => live,
        /// The subnets of the built-in network, one per address family. An empty list disables that
        /// network: the node is then not ready until a network is configured.
        default_subnets: Vec<Cidr> = vec![built_in("10.85.0.0/16")] => live,
        /// The bridge of the built-in network.
        default_bridge: String = "orlop0".to_owned() => live,
        /// The primary address of a pod with several addresses: the first one of its network
        /// (`cni`), or the first one of an address family (`ipv4` or `ipv6`).
        ip_preference: IpPreference = IpPreference::Cni => live,
        /// A template of a CNI configuration. The daemon writes it to `conf_dir` with the pod CIDR
        /// that the kubelet announces. Empty: the daemon writes no configuration.
        conf_template: Option<AbsolutePath> = None => live,
        /// Maximum time for one call of a plugin.
        plugin_timeout: Interval = Interval::from_secs(60) => live,
        /// Interval at which the daemon releases addresses and interfaces that belong to no pod. It
        /// also does so when it starts. 0: only at start.
        gc_interval: Interval = Interval::from_secs(600) => live,
    }
}

section! {
    /// The streaming server for exec, attach and port-forward sessions.
    Streaming {
        /// The address to listen on. The kubelet connects to it. An address other than loopback
        /// needs `tls_cert` and `tls_key`.
        address: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST) => restart,
        /// The port to listen on. 0: any free port.
        port: u16 = 0 => restart,
        /// The TLS certificate chain (PEM). Empty: no TLS.
        tls_cert: Option<AbsolutePath> = None => live,
        /// The private key (PEM) of the certificate.
        tls_key: Option<AbsolutePath> = None => live,
        /// The certificate authority (PEM) of client certificates, which are then required.
        /// Kubelets have no client certificate and cannot connect if this is set; use it only for
        /// other clients. Empty: no client certificate is required.
        client_ca: Option<AbsolutePath> = None => live,
        /// The minimum TLS version.
        tls_min_version: TlsVersion = TlsVersion::default() => live,
        /// The allowed cipher suites, with the names of the Kubernetes flag `--tls-cipher-suites`.
        /// All suites of TLS 1.3 are allowed unless the list contains one of them. Empty: all
        /// suites.
        tls_cipher_suites: Vec<CipherSuite> = Vec::new() => live,
        /// The daemon closes a session without traffic after this time.
        idle_timeout: Interval = Interval::from_secs(4 * 3600) => live,
    }
}

section! {
    /// Settings of all containers.
    Containers {
        /// The directory for the records and writable layers of pods and containers, for example on
        /// another disk than the images. Empty: inside `root`. It can be changed only if the node
        /// has no pods. See `docs/guides/images.md`.
        root: Option<AbsolutePath> = None => restart,
        /// Maximum length of a line in the log file. Longer lines of output are split.
        max_log_line: ByteSize = ByteSize::kib(16) => live,
        /// Maximum bytes of log output per container per second. The runtime drops the excess and
        /// writes a line with the number of dropped bytes to the log. Not with the docker backend.
        /// 0: no limit.
        log_rate: ByteSize = ByteSize::kib(0) => live,
        /// Maximum size of the log file of a container until the kubelet rotates it (at its
        /// `containerLogMaxSize`). The runtime drops the excess and writes a line with the number of
        /// dropped bytes to the log. Not with the docker backend. 0: no limit.
        log_size: ByteSize = ByteSize::kib(0) => live,
        /// Action if the disk of the log is too slow for the output: the container blocks (`wait`),
        /// or the runtime drops output (`drop`).
        log_full: LogPolicy = LogPolicy::Block => live,
        /// Maximum number of processes and threads of a container whose pod sets no limit.
        pids_limit: Limit = Limit::Unlimited => live,
        /// Resource limits (ulimits) of all containers, such as `["nofile=1024:524288"]`.
        /// Containers inherit all other limits from the daemon.
        ulimits: Vec<Rlimit> = Vec::new() => live,
        /// Annotations in the OCI specification of all containers. Annotations of the runtime and
        /// passed-on annotations of pods and containers take precedence. Annotations for
        /// `/dev/shm`, the umask and cgroups take effect as well. See `docs/guides/runtimes.md`.
        default_annotations: BTreeMap<String, String> = BTreeMap::new() => live,
        /// The size of `/dev/shm` of a pod. Its contents count as memory of the container that
        /// wrote them.
        shm_size: ByteSize = ByteSize::mib(64) => live,
        /// The time zone of containers (`/etc/localtime`): `local` for that of the node, or a name
        /// from `/usr/share/zoneinfo` such as `Europe/Paris`. Empty: the time zone of the image.
        timezone: Option<String> = None => live,
        /// Minimum value of `GOMAXPROCS`. The runtime sets the variable in containers that do not
        /// define it: to the CPU limit or else the CPU request, rounded up, but at least to this
        /// value. 0: the variable is not set.
        min_gomaxprocs: u16 = 0 => live,
        /// Sysctls of all pods with their own network namespace. The sysctls of a pod take
        /// precedence.
        sysctls: BTreeMap<String, String> = BTreeMap::new() => live,
        /// Allow containers to bind ports below 1024 without privileges.
        unprivileged_ports: bool = true => live,
        /// Allow containers to send pings without privileges.
        unprivileged_icmp: bool = true => live,
        /// Maximum size of each output stream of ExecSync. Both streams together must fit into a
        /// message of 16 MiB. The runtime drops the rest.
        exec_output_limit: ByteSize = ByteSize::mib(16) => live,
        /// Maximum memory for the output of all running ExecSync commands. If it is exceeded,
        /// ExecSync returns only the first 16 KiB of each stream.
        exec_output_memory: ByteSize = ByteSize::mib(64) => live,
        /// Allow restoring containers from checkpoint images. A checkpoint contains processes with
        /// their privileges. A user who can choose an image can then run processes with any
        /// privileges.
        restore_images: bool = false => live,
        /// Allow restoring containers and pods from archives that a CRI client specifies by path.
        /// `false` still allows checkpoints.
        restore_archives: bool = true => live,
        /// Apply the default seccomp profile to containers that request no profile. Otherwise such
        /// containers run without a profile.
        seccomp_when_unset: bool = false => live,
        /// Deny `socketcall` in the default seccomp profile. 32-bit x86 programs that use glibc or
        /// Go create sockets with it; with this setting they fail with `ENOSYS`. A seccomp filter
        /// cannot see the address family of this call. On a node without AppArmor, only this key
        /// prevents 32-bit programs from using `AF_ALG` and `AF_VSOCK`. On s390x all programs need
        /// `socketcall`.
        seccomp_deny_socketcall: bool = false => live,
        /// Run containers of pods in the host network without SELinux confinement, unless they
        /// request an SELinux context.
        host_network_unconfined: bool = false => live,
        /// Number of SELinux categories, starting with `c0`, from which each pod gets a unique
        /// pair: 2 to 1024.
        selinux_category_range: u16 = 1024 => live,
        /// Set the owner of devices to the user of the container instead of the owner on the node.
        device_ownership_from_security_context: bool = false => live,
        /// Directories with CDI specifications of devices. A later directory takes precedence over
        /// an earlier one.
        cdi_dirs: Vec<AbsolutePath> = CDI_DIRS.map(built_in).to_vec() => live,
        /// The processors of exec commands in containers: `first` for the first processor of the
        /// container, or a list such as `0-3`. The runtime must support `execCPUAffinity` (runc
        /// 1.3, crun 1.20); other runtimes ignore it. Empty: all processors of the container.
        exec_cpu_affinity: Option<ExecAffinity> = None => live,
        /// A file with block IO classes, in the format of containerd and CRI-O. Containers select a
        /// class by annotation. Empty: no classes.
        blockio_config: Option<AbsolutePath> = None => live,
        /// Classes of processor caches and memory bandwidth (Intel RDT): directories below
        /// `/sys/fs/resctrl` that the administrator created. Containers select a class by
        /// annotation.
        rdt_classes: Vec<String> = Vec::new() => live,
        /// A file with partitions of processor caches and memory bandwidth (Intel RDT), in the
        /// format of containerd and CRI-O. The daemon creates its classes in `/sys/fs/resctrl`.
        /// Containers select them in the same way as `rdt_classes`. Empty: no classes.
        rdt_config: Option<AbsolutePath> = None => live,
        /// Create no volumes for VOLUME instructions of images.
        ignore_image_volumes: bool = false => live,
    }
}

section! {
    /// The keeper: the small process that supervises each pod.
    Keeper {
        /// The keeper binary. Empty: `orlop-keeper` in the directory of the `orlop` binary.
        path: Option<AbsolutePath> = None => live,
        /// The cgroup of the keepers. Empty: a child of the cgroup of the daemon if systemd created
        /// that, else `/orlop/keepers`.
        cgroup: Option<String> = None => restart,
    }
}

section! {
    /// Plugins of the Node Resource Interface (NRI), which can adjust and update containers. They
    /// have root privileges on this node. See `docs/guides/nri.md`.
    Nri {
        /// Whether NRI plugins are enabled.
        enable: bool = true => live,
        /// The socket that plugins connect to. Only root can use it.
        socket: AbsolutePath = built_in("/var/run/nri/nri.sock") => live,
        /// Whether plugins that the daemon did not start may connect.
        external_connections: bool = true => live,
        /// The directory with plugins to start: programs named `NN-name`. The daemon starts them in
        /// the order of their numbers.
        plugin_dir: AbsolutePath = built_in("/opt/nri/plugins") => live,
        /// The directory with plugin configurations: `NN-name.conf` or `name.conf`.
        plugin_config_dir: AbsolutePath = built_in("/etc/nri/conf.d") => live,
        /// Maximum time for a plugin to register, and then to process the existing pods and
        /// containers.
        registration_timeout: Interval = Interval::from_secs(5) => live,
        /// Maximum time for a plugin to answer a request. The daemon disconnects a slower plugin
        /// and continues without it.
        request_timeout: Interval = Interval::from_secs(2) => live,
        /// Enable the keys below, and allow pods to require plugins with the annotation
        /// `required-plugins.noderesource.dev`.
        validator: bool = false => live,
        /// Reject containers to which plugins add OCI hooks.
        reject_oci_hooks: bool = false => live,
        /// Reject changes of the default seccomp profile.
        reject_runtime_default_seccomp: bool = false => live,
        /// Reject seccomp profiles for unconfined containers.
        reject_unconfined_seccomp: bool = false => live,
        /// Reject changes of custom seccomp profiles (localhost profiles).
        reject_custom_seccomp: bool = false => live,
        /// Reject changes of namespaces.
        reject_namespaces: bool = false => live,
        /// Reject sysctls.
        reject_sysctls: bool = false => live,
        /// Plugins that are required to create a container, as `name` or `NN-name`. Static pods
        /// that must start before the plugins need the annotation set in
        /// `tolerate_missing_annotation`.
        required_plugins: Vec<String> = Vec::new() => live,
        /// The annotation with which a pod opts out of required plugins (`"true"`). Empty: no
        /// annotation.
        tolerate_missing_annotation: Option<String> = None => live,
    }
}

section! {
    /// OCI hooks: programs that the runtime runs at certain stages of the life of a container.
    Hooks {
        /// Directories with hook definitions in JSON (`oci-hooks(5)`, version 1.0.0): the program,
        /// its stages and the matching containers. A definition in a later directory replaces one
        /// with the same name in an earlier directory. The daemon reads them for each new
        /// container; an invalid definition fails the creation.
        dirs: Vec<AbsolutePath> = Vec::new() => live,
    }
}

section! {
    /// Settings of the docker backend: the Docker Engine and the equivalents of cri-dockerd flags.
    Docker {
        /// The unix socket of the Docker Engine.
        endpoint: SocketPath = built_in("/run/docker.sock") => restart
            @ flag("docker-endpoint", "SOCKET", "Unix socket of the Docker Engine [default: unix:///run/docker.sock]").below(DOCKER),
        /// The root directory of cri-dockerd. The daemon keeps sandbox checkpoints below it, so
        /// that a node can switch between cri-dockerd and orlop.
        root: AbsolutePath = built_in("/var/lib/cri-dockerd") => restart
            @ flag("cri-dockerd-root-directory", "DIR", "Root directory of cri-dockerd, with the sandbox checkpoints [default: /var/lib/cri-dockerd]").alias("experimental-dockershim-root-directory").below(DOCKER),
        /// The image of the sandbox container (pause image). If it is empty or cannot be pulled,
        /// the daemon loads a built-in image into the engine.
        pause_image: Option<String> = None => restart
            @ flag("pod-infra-container-image", "IMAGE", "Pause image of the pod sandboxes [default: a built-in image]").below(DOCKER),
        /// Maximum time for a call to the engine, except for pulls.
        request_timeout: Interval = Interval::from_secs(120) => restart
            @ flag("runtime-request-timeout", "DURATION", "Timeout of calls to the Docker Engine, except for pulls [default: 120s]").below(DOCKER),
        /// The network plugin of pods: `cni` uses the networks of `[network]`, `bridge` the bridge
        /// of the engine, and `none` gives pods only a loopback interface.
        network_plugin: NetworkPlugin = NetworkPlugin::Cni => restart
            @ flag("network-plugin", "NAME", "Network plugin of the pods: cni, bridge or none [default: cni]").below(DOCKER),
        /// The hairpin mode of pods on the bridge of the engine: how a pod reaches itself through a
        /// service. With `cni`, the CNI configuration defines it.
        hairpin_mode: Hairpin = Hairpin::Veth => restart
            @ flag("hairpin-mode", "MODE", "Hairpin mode of the bridge: promiscuous-bridge, hairpin-veth or none [default: hairpin-veth]").below(DOCKER),
        /// Whether pods get addresses of both families, or only the first address.
        ipv6_dual_stack: bool = true => restart
            @ flag("ipv6-dual-stack", "BOOL", "Whether pods get addresses of both families [default: true]").below(DOCKER),
        /// The cgroup to which the daemon moves itself and the engine. Empty: they stay in their
        /// cgroups.
        runtime_cgroups: Option<String> = None => restart
            @ flag("runtime-cgroups", "CGROUP", "Cgroup to which the daemon moves itself and the Docker Engine").below(DOCKER),
    }
}

section! {
    /// A runtime that pods can request by name (`runtimeClassName`, through its handler).
    Runtime {
        /// The kind of the runtime. `oci`: a command line compatible with runc. `sandboxed`: a
        /// command line compatible with runc that runs all containers of a pod in one sandbox, such
        /// as gVisor; a program named `runsc` is always of this kind. `shim`: a containerd shim of
        /// version 2.
        kind: RuntimeKind = RuntimeKind::Oci => live,
        /// The runtime binary, or with `sandboxer = "proxy"` the binary that the sandbox controller
        /// starts. Empty: the binary with the name of the table in `/usr/local/sbin`,
        /// `/usr/local/bin`, `/usr/sbin`, `/usr/bin`, `/sbin` or `/bin`. The daemon ignores its
        /// PATH.
        path: Option<AbsolutePath> = None => live,
        /// The configuration of a shim: its configuration file or, for the shim of runc, the
        /// runtime binary to call. Empty: the default of the shim.
        shim_config: Option<AbsolutePath> = None => live,
        /// The type of the options message that passes `shim_config` to the shim.
        /// `containerd.runc.v1.Options`: this message. `runtimeoptions.v1.Options`: this message
        /// without a `type_url`. Any other value: `runtimeoptions.v1.Options` with the value as
        /// `type_url`. Empty: `containerd.runc.v1.Options` for the shim of runc, else
        /// `runtimeoptions.v1.Options` without a `type_url`.
        shim_config_type: String = String::new() => live,
        /// Whether the daemon sends the contents of the configuration file to the shim instead of
        /// its path.
        shim_config_body: bool = false => live,
        /// Whether the guests of a shim pull their images themselves. The daemon then downloads no
        /// layers for pods of this runtime.
        guest_pull: bool = false => live,
        /// How the sandbox of a pod is created if the runtime is a shim. `podsandbox`: a task that
        /// only waits. `shim`: the Sandbox service of the shim, for example to boot a virtual
        /// machine. `proxy`: a sandbox controller behind a socket, which needs no local shim.
        sandboxer: Sandboxer = Sandboxer::Podsandbox => live,
        /// The socket of the sandbox controller.
        address: Option<AbsolutePath> = None => live,
        /// The name of the runtime at the sandbox controller. Empty: the name of this table.
        controller: String = String::new() => live,
        /// How a shim provides the standard streams of its processes: as FIFOs (`fifo`), or as
        /// streams that the shim serves (`streaming`; the `io_type` of containerd).
        io: StreamsBy = StreamsBy::Fifo => live,
        /// Arguments before the subcommand of each runtime call.
        args: Vec<String> = Vec::new() => live,
        /// The state directory of the runtime. Empty: a directory below `state`.
        root: Option<AbsolutePath> = None => live,
        /// Pod annotations to pass to the runtime. `*` at the end matches any text.
        pod_annotations: Vec<String> = Vec::new() => live,
        /// Container annotations to pass to the runtime. `*` at the end matches any text.
        container_annotations: Vec<String> = Vec::new() => live,
        /// Pod annotations that the daemon applies, such as `io.kubernetes.cri-o.ShmSize`. `*` at
        /// the end matches any text. See `docs/guides/runtimes.md` for the list.
        allowed_annotations: Vec<String> = Vec::new() => live,
        /// Annotations in the OCI specification of containers of this runtime. They take precedence
        /// over `containers.default_annotations`; passed-on annotations of pods and containers take
        /// precedence over them.
        default_annotations: BTreeMap<String, String> = BTreeMap::new() => live,
        /// A JSON file with the base OCI specification of the containers. Settings of the pod
        /// replace its values. Empty: the built-in specification. See `docs/guides/runtimes.md`.
        base_runtime_spec: Option<AbsolutePath> = None => live,
        /// Allow containers to create child cgroups, if the node has cgroup v2 with `nsdelegate`.
        cgroup_writable: bool = false => live,
        /// Hide the devices of the host from privileged containers.
        privileged_without_host_devices: bool = false => live,
        /// A separate CNI configuration directory for pods of this runtime. Empty: the `conf_dir` of
        /// `[network]`.
        cni_conf_dir: Option<AbsolutePath> = None => live,
    }
}

#[allow(
    clippy::expect_used,
    reason = "constants of this file, all read by a test"
)]
fn built_in<T: Value>(text: &'static str) -> T {
    T::from_flag(text).expect("a built-in default is valid")
}

#[allow(
    clippy::expect_used,
    reason = "constants of this file, all read by a test"
)]
fn count(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).expect("a built-in limit is not zero")
}
