//! Every key of the configuration: its type, default and documentation.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use orlop_dockershim::config::{Hairpin, NetworkPlugin};
use orlop_engine::config::{
    CDI_DIRS, CgroupDriver, Cidr, ExecAffinity, ImageStore, InProcess, IpPreference, LogPolicy,
    Platform, Rlimit,
};
use orlop_stream::{CipherSuite, TlsVersion};

use super::section::{Section, section};
use super::values::{
    AbsolutePath, Backend, ByteSize, CredentialsAt, Group, Interval, Laziness, LevelFilter, Limit,
    LogFormat, MetricsEndpoint, OtlpEndpoint, RuntimeKind, Sandboxer, Share, SocketPath, StreamsBy,
    TraceProtocol, Value,
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

/// Whether a reload applies anything of a table. Pods are an engine's own affair where the engine is Docker's.
pub(super) fn is_live(table: &str, backend: Backend) -> bool {
    backend == Backend::Native || matches!(table, "grpc" | "log" | "metrics" | "web" | "traces")
}

/// The heading of flags that make sense with one backend.
pub(super) const DOCKER: &str = "With the docker backend";

section! {
    /// Keys above all tables: where the daemon keeps things and what it is made of.
    Daemon {
        /// What must survive a reboot: images, the records of pods and containers,
        /// their writable layers. One daemon per directory.
        root: AbsolutePath = built_in("/var/lib/orlop") => restart
            @ flag("root", "DIR", "Where images and the records of pods are kept [default: /var/lib/orlop]"),
        /// What must not survive a reboot: sockets, keepers' directories, namespaces.
        /// Belongs on a tmpfs.
        state: AbsolutePath = built_in("/run/orlop") => restart
            @ flag("state", "DIR", "Where sockets and whatever ends with a reboot are kept [default: /run/orlop]"),
        /// Who runs the pods: orlop itself, or the Docker Engine of this host.
        backend: Backend = Backend::Native => restart
            @ flag("backend", "NAME", "Who runs the pods: native or docker [default: native]"),
        /// The runtime of a pod that asks for none. Empty: the first of orlop-run, crun and runc
        /// that works on this host.
        default_runtime: Option<String> = None => live,
        /// Who makes the control groups of pods. `auto` takes systemd where it is the
        /// init of a host with cgroup v2, and the file system elsewhere.
        cgroup_driver: Option<CgroupDriver> = None => restart
            @ flag("cgroup-driver", "DRIVER", "What the engine's cgroup driver must be: systemd or cgroupfs [default: what it is]").below(DOCKER),
        /// Threads that serve requests. 0: one per processor, but two at least and four
        /// at most.
        worker_threads: u16 = 0 => restart,
    }
}

section! {
    /// The CRI endpoint that the kubelet and clients talk to.
    Grpc {
        /// The sockets to listen on. Sockets passed by systemd replace them.
        listen: Vec<SocketPath> = vec![built_in("/run/orlop/orlop.sock")] => restart
            @ flag("listen", "SOCKET", "The unix socket to serve the CRI on; may be given more than once [default: unix:///run/orlop/orlop.sock]").alias("container-runtime-endpoint"),
        /// The group that may use the sockets besides root: whoever is in it owns the
        /// node. Empty: root's own group.
        group: Option<Group> = None => restart,
        /// The largest message taken or sent.
        max_message_size: ByteSize = ByteSize::mib(16) => restart,
        /// Connections served at once. A further one takes the place of one without a call: first of one that
        /// never called, else of the process that has most of them. Else it waits. A process may have half of
        /// them without a call.
        max_connections: NonZeroU32 = count(512) => restart,
        /// Calls in work at once, over all connections. As many again wait their turn,
        /// further ones are refused with RESOURCE_EXHAUSTED.
        max_calls: NonZeroU32 = count(1024) => live,
        /// Calls in work at once on one connection.
        max_calls_per_connection: NonZeroU32 = count(512) => restart,
        /// Long-lived streams (events, progress) open at once. They do not count as
        /// calls, so that they never keep one waiting.
        max_streams: NonZeroU32 = count(128) => live,
        /// How long events of pods and containers are kept for listeners that come back, as kubelets do
        /// after a restart of the daemon: `docs/operations.md`. 0s: none are.
        event_backlog: Interval = Interval::from_secs(300) => live,
        /// A connection silent for so long is asked whether it is alive. 0s: never.
        keepalive: Interval = Interval::from_secs(120) => restart,
        /// How long it may take to answer that.
        keepalive_timeout: Interval = Interval::from_secs(20) => restart,
        /// How long calls in work may go on once the daemon is told to stop.
        drain_timeout: Interval = Interval::from_secs(10) => live,
    }
}

section! {
    /// The daemon's own log. It goes to standard error.
    Log {
        /// What is logged: off, error, warn, info, debug or trace, for all of orlop or per
        /// module (`info,orlop_image=debug`). Libraries log warnings, unless named.
        level: LevelFilter = LevelFilter::default() => live
            @ flag("log-level", "LEVEL", "What to log: a level, or one per module as in info,orlop_image=debug [default: info]"),
        /// How lines look. `auto` takes text on a terminal, journal where systemd's
        /// journal reads along, json elsewhere.
        format: LogFormat = LogFormat::Auto => restart,
        /// A call in work for longer is logged while it goes on and when it ends. 0s:
        /// never. Streams are left out.
        slow_call: Interval = Interval::from_secs(10) => live,
    }
}

section! {
    /// Metrics for Prometheus, and the health check.
    Metrics {
        /// Where `/metrics`, `/healthz` and `/debug/state` are served over HTTP: an address such as
        /// `127.0.0.1:9273`, or `unix:///path`. One that is open to other machines needs
        /// `tls_cert`, `tls_key`, and `client_ca` or `token_file`. Empty: nowhere.
        listen: Option<MetricsEndpoint> = None => live
            @ flag("metrics-listen", "ENDPOINT", "Where to serve metrics: an address or unix:///path [default: nowhere]"),
        /// The certificate chain (PEM) of an address. It is read again when it has changed. Empty: no TLS.
        tls_cert: Option<AbsolutePath> = None => live,
        /// The private key (PEM) of the certificate.
        tls_key: Option<AbsolutePath> = None => live,
        /// Who asks must show a certificate of this authority (PEM), or, where there is a `token_file`,
        /// the token. Empty: no certificate will do.
        client_ca: Option<AbsolutePath> = None => live,
        /// A file with the token that who asks must show (`Authorization: Bearer`), read at each request.
        /// Empty: there is none.
        token_file: Option<AbsolutePath> = None => live,
        /// Names in the `Host` of requests that are answered at an address without `client_ca` and `token_file`,
        /// beside IP addresses, `localhost` and the node's host name. Others are refused: a web page can make a
        /// browser send them.
        names: Vec<String> = Vec::new() => live,
        /// Whether calls to the Docker Engine are told under the names of cri-dockerd and older kubelets, too
        /// (`kubelet_docker_operations_total` and its like), for dashboards that know no others. With the docker
        /// backend.
        docker_names: bool = false => live,
    }
}

section! {
    /// The node as pages of a browser: `docs/web.md`.
    Web {
        /// Where the page is served: an address such as `127.0.0.1:9274`, or `unix:///path` for who forwards a
        /// port to it. One that is open to other machines needs `tls_cert` and `tls_key`. Empty: nowhere.
        listen: Option<MetricsEndpoint> = None => live,
        /// The certificate chain (PEM) of an address. It is read again when it has changed. Empty: no TLS.
        tls_cert: Option<AbsolutePath> = None => live,
        /// The private key (PEM) of the certificate.
        tls_key: Option<AbsolutePath> = None => live,
        /// A file with the token of the first address (`/?token=`), read at each request: with another token all
        /// sessions end. Empty: the daemon makes one up and writes the address to `web.url` in its state
        /// directory, for root alone.
        token_file: Option<AbsolutePath> = None => live,
        /// Names that browsers may know this machine by, beside the address and `localhost`.
        names: Vec<String> = Vec::new() => live,
    }
}

section! {
    /// Where the time of pods' starts went, for OpenTelemetry. `orlop trace` needs none of it.
    Traces {
        /// A collector that takes OTLP, such as `http://127.0.0.1:4318`, or `https://` one. Empty: none.
        otlp: Option<OtlpEndpoint> = None => live,
        /// How it takes it: over HTTP (`http`) or gRPC (`grpc`), both with protobuf.
        protocol: TraceProtocol = TraceProtocol::Http => live,
        /// Of the traces of clients that trace nothing themselves, the part that is sent: 0.01 is one in a
        /// hundred. A call of a client that traces is sent where the client's own span is.
        sample: Share = Share::ALL => live,
        /// The authority (PEM) of an `https://` collector's certificate. Empty: the system's.
        ca: Option<AbsolutePath> = None => live,
        /// A file with headers to send along, one `name: value` a line, read at the start and at a reload.
        /// Leaves this machine over `https://` alone. Empty: none.
        headers_file: Option<AbsolutePath> = None => live,
    }
}

section! {
    /// Images: where they come from and how they are kept.
    Images {
        /// Directories with a `hosts.toml` per registry host, read at each pull.
        hosts_dirs: Vec<AbsolutePath> = vec![built_in("/etc/orlop/certs.d"), built_in("/etc/containerd/certs.d")] => live,
        /// The file that says where the names of images lead, which registries are blocked and what
        /// short names stand for, such as `/etc/containers/registries.conf`; the files of its `.d`
        /// directory come after it: `docs/registries.md`. Read at each pull. Empty: names lead where
        /// they say, and short ones are Docker Hub's. With the docker backend it says who is asked when
        /// images are judged, and goes with a policy: `docs/docker.md`.
        registries_conf: Option<AbsolutePath> = None => live,
        /// Files with the node's own registry credentials, in the format of Docker's
        /// `config.json`. The word `podman` stands for the places where podman looks for its
        /// `auth.json`. A pull that brings credentials does not use them.
        credentials: Vec<CredentialsAt> = Vec::new() => live,
        /// A directory with the credentials of pod namespaces: `NAMESPACE.json`, in the same format.
        /// They come before the node's own, and no other namespace's pods use them. Empty: none has.
        credentials_dir: Option<AbsolutePath> = None => live,
        /// Hosts that a registry may send the node to (for tokens, or by redirects) though their
        /// address is on a private network and the registry's own is not, or is loopback or
        /// link-local.
        internal_hosts: Vec<String> = Vec::new() => live,
        /// The policy that says which images may be used, such as
        /// `/etc/containers/policy.json`: `docs/signatures.md`. The file is read anew for each
        /// pull and container. Empty: any image may be used.
        signature_policy: Option<AbsolutePath> = None => live,
        /// A directory with `NAMESPACE.json` for pod namespaces with a policy of their own,
        /// which takes the place of the one above. Empty: none has.
        signature_policy_dir: Option<AbsolutePath> = None => live,
        /// A directory with files that say where signatures made with GPG are, in the format of
        /// containers-registries.d(5). Only a node with a policy reads them, anew for each pull.
        signature_stores: Option<AbsolutePath> = Some(built_in("/etc/containers/registries.d")) => live,
        /// A directory with private keys (PEM, OpenPGP) that open encrypted images, and in it a
        /// directory for each pod namespace with keys and key providers of its own:
        /// `docs/encryption.md`. The keys are read anew for each pull and container. Empty: encrypted
        /// images are refused.
        decryption_keys: Option<AbsolutePath> = None => live,
        /// The file that names key providers for encrypted images of all pods, as ocicrypt has it.
        /// Empty: there are none.
        key_providers: Option<AbsolutePath> = None => live,
        /// What the layers of images that are pulled become: a directory with their files each
        /// (`files`), or one file of the file system EROFS (`erofs`), which takes Linux 5.15, and 6.12
        /// to do without a loop device. Layers that are there stay what they are.
        store: ImageStore = ImageStore::Files => live,
        /// Whether layers in the formats eStargz, zstd:chunked and SOCI are mounted while they are
        /// fetched, so that containers start before their image is here (`auto`): `docs/images.md`.
        /// Such a container reads from the registry while it runs, and fails to where that is gone.
        lazy: Laziness = Laziness::Never => live,
        /// The repositories whose layers may be lazy, such as `registry.example.com/*`. `*` stands for
        /// any text at either end. Empty: all.
        lazy_repositories: Vec<String> = Vec::new() => live,
        /// Layers that are smaller, compressed, are fetched whole.
        lazy_min_layer: ByteSize = ByteSize::mib(4) => live,
        /// How long a container waits for what it reads of a lazy layer before the read fails (`EIO`).
        lazy_timeout: Interval = Interval::from_secs(30) => restart,
        /// How many bytes a second of lazy layers are fetched while no container waits for them. 0: as
        /// many as come.
        lazy_bandwidth: ByteSize = ByteSize::kib(0) => restart,
        /// Once lazy layers take so much of the disk, only what containers read is fetched. 0: no bound.
        lazy_cache: ByteSize = ByteSize::kib(0) => live,
        /// Keeps compressed layers after unpacking them; needed to push images on.
        keep_blobs: bool = false => live,
        /// Downloads at once from one registry, over all pulls; 16 times as many from all. One pull
        /// has two thirds of them, so that another from the same registry goes on.
        max_downloads: NonZeroU32 = count(6) => live,
        /// The largest image that is pulled or imported: its compressed layers and what they hold,
        /// together.
        max_size: ByteSize = ByteSize::mib(256 << 10) => live,
        /// The memory that layers may use together while they are unpacked: buffers and decompression
        /// windows. A layer with a larger window is refused. One registry has two thirds of it and one
        /// pull half of it, so that others go on.
        unpack_memory: ByteSize = ByteSize::mib(40) => live,
        /// A download that brings nothing for so long is tried anew. A client is given up that sends
        /// nothing of the archive that it imports for so long, or takes nothing of one that it exports.
        progress_timeout: Interval = Interval::from_secs(60) => live
            @ flag("image-pull-progress-deadline", "DURATION", "A pull that brings nothing for so long is ended [default: 60s]").below(DOCKER),
        /// What each download must bring a second, on average over `progress_timeout`; a slower one
        /// is tried anew, a few times. A client that imports or exports more slowly is given up.
        min_speed: ByteSize = ByteSize::kib(4) => live,
        /// A pull whose clients have all left ends after so long. What it has downloaded stays
        /// for the next try.
        abandon_after: Interval = Interval::from_secs(600) => live,
        /// Images that are never collected as garbage. `*` stands for any text.
        pinned: Vec<String> = Vec::new() => live,
        /// The platform taken from an image made for several, such as `linux/arm64`.
        /// Empty: this machine's.
        platform: Option<Platform> = None => live,
    }
}

section! {
    /// Pod networking.
    Network {
        /// Where the CNI configuration is looked for. The first file that is valid
        /// decides; without any, a built-in bridge network serves.
        conf_dir: AbsolutePath = built_in("/etc/cni/net.d") => live
            @ flag("cni-conf-dir", "DIR", "Where the CNI configuration is [default: /etc/cni/net.d]").below(DOCKER),
        /// Where CNI plugins are looked for, in this order.
        bin_dirs: Vec<AbsolutePath> = vec![built_in("/opt/cni/bin"), built_in("/usr/lib/cni")] => live
            @ flag("cni-bin-dir", "DIRS", "Where CNI plugins are, separated by commas [default: /opt/cni/bin,/usr/lib/cni]").commas().below(DOCKER),
        /// Where the results of CNI plugins are kept.
        cache_dir: AbsolutePath = built_in("/var/lib/cni") => restart
            @ flag("cni-cache-dir", "DIR", "Where the results of CNI plugins are kept [default: /var/lib/cni/cache]").below(DOCKER),
        /// When the standard plugins are replaced by the implementation within: for
        /// chains made of them alone (`auto`), or `always` or `never`.
        in_process: InProcess = InProcess::Auto => live,
        /// Standard plugins whose programs are run all the same, such as `["portmap"]`: a
        /// network that uses one of them is left to its plugins' programs.
        pinned_plugins: Vec<String> = Vec::new() => live,
        /// How many of the networks in `conf_dir` a pod is attached to: the first ones by
        /// file name. The first one's addresses are the pod's.
        max_networks: NonZeroU32 = count(1) => live,
        /// How long a network that was ready stays so while its plugins say that it is not.
        status_grace: Interval = Interval::from_secs(30) => live,
        /// The subnets of the built-in network, one per address family. An empty list does
        /// without that network: the node is not ready until one is configured.
        default_subnets: Vec<Cidr> = vec![built_in("10.85.0.0/16")] => live,
        /// The bridge of the built-in network.
        default_bridge: String = "orlop0".to_owned() => live,
        /// Which address of a pod with several is its first one: as its network says
        /// (`cni`), or that of one family.
        ip_preference: IpPreference = IpPreference::Cni => live,
        /// A template of a CNI configuration, written to `conf_dir` with the pod subnet
        /// that the kubelet announces. Empty: none is written.
        conf_template: Option<AbsolutePath> = None => live,
        /// How long a plugin may take.
        plugin_timeout: Interval = Interval::from_secs(60) => live,
        /// How often addresses and interfaces that belong to no pod are looked for and released,
        /// besides at the start. 0: never.
        gc_interval: Interval = Interval::from_secs(600) => live,
    }
}

section! {
    /// The endpoint of exec, attach and port-forward sessions.
    Streaming {
        /// The address to listen on. The kubelet connects to it; another address than a
        /// loopback one needs `tls_cert` and `tls_key`.
        address: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST) => restart,
        /// The port to listen on. 0: any free one.
        port: u16 = 0 => restart,
        /// The certificate chain (PEM). Empty: no TLS.
        tls_cert: Option<AbsolutePath> = None => live,
        /// The private key (PEM) of the certificate.
        tls_key: Option<AbsolutePath> = None => live,
        /// Clients must show a certificate of this authority (PEM). Kubelets have none to show. Empty: no
        /// certificate is asked for.
        client_ca: Option<AbsolutePath> = None => live,
        /// The oldest version of TLS that is spoken.
        tls_min_version: TlsVersion = TlsVersion::default() => live,
        /// The cipher suites that may be used, by the names of `--tls-cipher-suites` of Kubernetes. Those
        /// of TLS 1.3 may all be used unless one of them is named. Empty: all.
        tls_cipher_suites: Vec<CipherSuite> = Vec::new() => live,
        /// A session without traffic ends after so long.
        idle_timeout: Interval = Interval::from_secs(4 * 3600) => live,
    }
}

section! {
    /// What holds for every container.
    Containers {
        /// Where the records and writable layers of pods and containers are kept, on another disk
        /// than images, say. Empty: in `root`. It can be changed while there are no pods:
        /// `docs/images.md`.
        root: Option<AbsolutePath> = None => restart,
        /// Longer lines of output are split in the log file.
        max_log_line: ByteSize = ByteSize::kib(16) => live,
        /// The most bytes of log that a container writes in a second. What exceeds them is
        /// dropped, and a line of the log tells how much it was; not with the docker backend.
        /// 0: any number.
        log_rate: ByteSize = ByteSize::kib(0) => live,
        /// The most bytes that a container's log file has until it is rotated, as a kubelet does
        /// at its `containerLogMaxSize`. What exceeds them is dropped, and a line of the log tells
        /// how much it was; not with the docker backend. 0: any number.
        log_size: ByteSize = ByteSize::kib(0) => live,
        /// What happens to output while the disk of the log is too slow for it: containers
        /// `wait`, or go on and their output is dropped (`drop`).
        log_full: LogPolicy = LogPolicy::Block => live,
        /// Processes and threads per container whose pod sets no limit.
        pids_limit: Limit = Limit::Unlimited => live,
        /// Resource limits of every container, such as `["nofile=1024:524288"]`. Those not
        /// named are inherited from the daemon.
        ulimits: Vec<Rlimit> = Vec::new() => live,
        /// Annotations that the specification of every container has. Those of its runtime, and those of
        /// pods and containers that are passed on, come before them. What they say of `/dev/shm`, the
        /// umask and control groups holds, too: `docs/runtimes.md`.
        default_annotations: BTreeMap<String, String> = BTreeMap::new() => live,
        /// How much a pod's `/dev/shm` takes. What is in it counts as memory of the container that wrote
        /// it.
        shm_size: ByteSize = ByteSize::mib(64) => live,
        /// The time zone of containers, as their `/etc/localtime`: `local` for the node's, or a name such
        /// as `Europe/Paris` of those in `/usr/share/zoneinfo`. Empty: as their image has it.
        timezone: Option<String> = None => live,
        /// Gives containers without the variable `GOMAXPROCS` one: the processors of their limit, else of
        /// their request, rounded up, and at least so many. 0: none.
        min_gomaxprocs: u16 = 0 => live,
        /// Kernel settings of every pod with a network namespace of its own; a pod's own
        /// settings win.
        sysctls: BTreeMap<String, String> = BTreeMap::new() => live,
        /// Lets containers bind ports below 1024 without privilege.
        unprivileged_ports: bool = true => live,
        /// Lets containers send pings without privilege.
        unprivileged_icmp: bool = true => live,
        /// The most that ExecSync returns of each output stream. Both together fit into the
        /// 16 MiB of a message; the rest is dropped.
        exec_output_limit: ByteSize = ByteSize::mib(16) => live,
        /// The memory that the output of all commands of ExecSync may take together. Beyond it
        /// only the first 16 KiB of a stream are returned.
        exec_output_memory: ByteSize = ByteSize::mib(64) => live,
        /// Lets containers go on from images that are checkpoints. A checkpoint holds
        /// processes with whatever rights they had, and who may name an image may then have
        /// these.
        restore_images: bool = false => live,
        /// Lets containers and pods go on from archives that a client of the CRI names by their path. `false` forbids
        /// that and still allows checkpoints.
        restore_archives: bool = true => live,
        /// Gives containers that ask for no seccomp profile the default one, instead of
        /// none.
        seccomp_when_unset: bool = false => live,
        /// Denies `socketcall` under the default seccomp profile. 32-bit x86 programs built with glibc or
        /// Go create all their sockets with it, and then fail with `ENOSYS`. A filter cannot see which
        /// address family they ask for: on a node without AppArmor only this key keeps 32-bit programs
        /// from `AF_ALG` and `AF_VSOCK`. On s390x all programs need `socketcall`.
        seccomp_deny_socketcall: bool = false => live,
        /// Runs the containers of pods on the host's network without SELinux's confinement, unless they ask
        /// for a context themselves.
        host_network_unconfined: bool = false => live,
        /// Of how many of SELinux's categories pods get a pair of their own, from `c0` on: 2 to 1024.
        selinux_category_range: u16 = 1024 => live,
        /// Gives devices to the user of the container instead of the node's owner.
        device_ownership_from_security_context: bool = false => live,
        /// Where vendors describe their devices for containers (CDI); what a later
        /// directory says goes before what an earlier one says.
        cdi_dirs: Vec<AbsolutePath> = CDI_DIRS.map(built_in).to_vec() => live,
        /// The processors of commands executed in containers: `first` for the first that the
        /// container may use, or a list such as `0-3`. Needs a runtime that knows
        /// `execCPUAffinity` (runc 1.3, crun 1.20); others run them anywhere. Empty: anywhere.
        exec_cpu_affinity: Option<ExecAffinity> = None => live,
        /// A file with classes of block IO, in the format that containerd and CRI-O read;
        /// containers choose one by annotation. Empty: there are none.
        blockio_config: Option<AbsolutePath> = None => live,
        /// Classes of processor caches and memory bandwidth that containers may choose by
        /// annotation: directories below `/sys/fs/resctrl`, made by the administrator.
        rdt_classes: Vec<String> = Vec::new() => live,
        /// A file with partitions of processor caches and memory bandwidth, in the format that
        /// containerd and CRI-O read. The daemon makes its classes in `/sys/fs/resctrl`, and
        /// containers may choose them as those of `rdt_classes`. Empty: there are none.
        rdt_config: Option<AbsolutePath> = None => live,
        /// Makes no volumes for the VOLUME lines of images.
        ignore_image_volumes: bool = false => live,
    }
}

section! {
    /// The keeper: the small process that every pod has.
    Keeper {
        /// The keeper's binary. Empty: `orlop-keeper` beside the `orlop` binary.
        path: Option<AbsolutePath> = None => live,
        /// The control group that keepers live in. Empty: one below the daemon's own where
        /// systemd made that, else `/orlop/keepers`.
        cgroup: Option<String> = None => restart,
    }
}

section! {
    /// Plugins of the Node Resource Interface (NRI), which may adjust and update containers. They
    /// are root on this node: `docs/nri.md` says what they can do.
    Nri {
        /// Whether there are any.
        enable: bool = true => live,
        /// The socket that plugins connect to, for root alone.
        socket: AbsolutePath = built_in("/var/run/nri/nri.sock") => live,
        /// Whether plugins may connect that the daemon has not started itself.
        external_connections: bool = true => live,
        /// Programs named `NN-name` here are started as plugins, in the order of their numbers.
        plugin_dir: AbsolutePath = built_in("/opt/nri/plugins") => live,
        /// Where their configuration is: `NN-name.conf`, or `name.conf`.
        plugin_config_dir: AbsolutePath = built_in("/etc/nri/conf.d") => live,
        /// How long a plugin may take to register, and then to take in what is on the node.
        registration_timeout: Interval = Interval::from_secs(5) => live,
        /// How long a plugin may take for an answer. One that takes longer is disconnected, and
        /// the pod goes on without it.
        request_timeout: Interval = Interval::from_secs(2) => live,
        /// Whether the keys below hold, and pods may require plugins by the annotation
        /// `required-plugins.noderesource.dev`.
        validator: bool = false => live,
        /// Refuses containers to which plugins add OCI hooks.
        reject_oci_hooks: bool = false => live,
        /// Refuses changes of the default seccomp policy.
        reject_runtime_default_seccomp: bool = false => live,
        /// Refuses seccomp policies for unconfined containers.
        reject_unconfined_seccomp: bool = false => live,
        /// Refuses changes of a seccomp policy of the node's own.
        reject_custom_seccomp: bool = false => live,
        /// Refuses changes of namespaces.
        reject_namespaces: bool = false => live,
        /// Refuses kernel settings.
        reject_sysctls: bool = false => live,
        /// Plugins without which no container is made, as `name` or `NN-name`. Static pods need
        /// the annotation below, or they cannot start before the plugins.
        required_plugins: Vec<String> = Vec::new() => live,
        /// The annotation by which a pod does without required plugins (`"true"`). Empty: none.
        tolerate_missing_annotation: Option<String> = None => live,
    }
}

section! {
    /// Hooks: programs that the runtime executes at moments of containers' lives.
    Hooks {
        /// Directories of definitions in JSON (`oci-hooks(5)`, version 1.0.0): which program, at
        /// which stages, for which containers. One in a later directory replaces that of the
        /// same name in an earlier one. Read at each creation; a broken one fails it.
        dirs: Vec<AbsolutePath> = Vec::new() => live,
    }
}

section! {
    /// The docker backend alone: the Docker Engine, and what cri-dockerd has flags for.
    Docker {
        /// The engine's unix socket.
        endpoint: SocketPath = built_in("/run/docker.sock") => restart
            @ flag("docker-endpoint", "SOCKET", "The engine's unix socket [default: unix:///run/docker.sock]").below(DOCKER),
        /// Where cri-dockerd keeps its files: the checkpoints of sandboxes are below it, so
        /// that a node can move from it and back.
        root: AbsolutePath = built_in("/var/lib/cri-dockerd") => restart
            @ flag("cri-dockerd-root-directory", "DIR", "Where sandbox checkpoints are kept [default: /var/lib/cri-dockerd]").alias("experimental-dockershim-root-directory").below(DOCKER),
        /// The image of the process that holds a pod's namespaces. Empty, or if it cannot be
        /// pulled: a built-in one, which is loaded into the engine.
        pause_image: Option<String> = None => restart
            @ flag("pod-infra-container-image", "IMAGE", "The image of the sandboxes' process [default: a built-in one]").below(DOCKER),
        /// How long a call of the engine may take, pulls apart.
        request_timeout: Interval = Interval::from_secs(120) => restart
            @ flag("runtime-request-timeout", "DURATION", "How long a call of the engine may take [default: 120s]").below(DOCKER),
        /// Who makes the pods' networks: `cni`, as `[network]` says; `bridge`, the engine's
        /// own; or `none`, which leaves pods with a loopback interface.
        network_plugin: NetworkPlugin = NetworkPlugin::Cni => restart
            @ flag("network-plugin", "NAME", "Who makes the pods' networks: cni, bridge or none [default: cni]").below(DOCKER),
        /// How pods on the engine's own bridge reach themselves through a service. With `cni`
        /// the network's own configuration says it.
        hairpin_mode: Hairpin = Hairpin::HairpinVeth => restart
            @ flag("hairpin-mode", "MODE", "promiscuous-bridge, hairpin-veth or none [default: hairpin-veth]").below(DOCKER),
        /// Whether pods have addresses of both families, or the first one alone.
        ipv6_dual_stack: bool = true => restart
            @ flag("ipv6-dual-stack", "BOOL", "Whether pods have addresses of both families [default: true]").below(DOCKER),
        /// The control group that the engine and this daemon are put into. Empty: they stay
        /// where they are.
        runtime_cgroups: Option<String> = None => restart
            @ flag("runtime-cgroups", "CGROUP", "The control group that the engine and this daemon are put into").below(DOCKER),
    }
}

section! {
    /// A runtime that pods may ask for by name (`runtimeClassName`, through its handler).
    Runtime {
        /// What kind it is: a command line that works like runc's, the same with a container
        /// that is the pod's sandbox (a program named `runsc` is always of this kind), or a shim of
        /// containerd's (version 2).
        kind: RuntimeKind = RuntimeKind::Oci => live,
        /// The runtime's binary, or the one that a Controller is told to start. Empty: the binary of the table's name in `/usr/local/sbin`, `/usr/local/bin`, `/usr/sbin`, `/usr/bin`, `/sbin` or `/bin`, whatever the daemon's PATH.
        path: Option<AbsolutePath> = None => live,
        /// What a shim is to read: its configuration file, or for runc's shim the
        /// runtime that it calls. Empty: the shim's own choice.
        shim_config: Option<AbsolutePath> = None => live,
        /// In options of which type a shim is told that: `containerd.runc.v1.Options`, or the type's name
        /// in `runtimeoptions.v1.Options`. Empty: the first for runc's shim, the second without a name
        /// for others.
        shim_config_type: String = String::new() => live,
        /// Whether it is told what is in the file, and not where it is.
        shim_config_body: bool = false => live,
        /// Whether the guests of a shim pull their images by themselves: no layer is fetched here for
        /// pods of this runtime.
        guest_pull: bool = false => live,
        /// Who makes what the containers of a pod share where the runtime is a shim: a task that
        /// only waits, the shim's own Sandbox service, by which a virtual machine boots with the
        /// pod, or (`proxy`) a Controller behind a socket, which needs no shim here.
        sandboxer: Sandboxer = Sandboxer::Podsandbox => live,
        /// The socket of that Controller.
        address: Option<AbsolutePath> = None => live,
        /// What it is called there. Empty: as the runtime here.
        controller: String = String::new() => live,
        /// How a shim hands over the streams of its processes: as fifos, or as streams that it
        /// serves itself (containerd's `io_type`).
        io: StreamsBy = StreamsBy::Fifo => live,
        /// Arguments before the subcommand, on every call.
        args: Vec<String> = Vec::new() => live,
        /// Where the runtime keeps its own state. Empty: below `state`.
        root: Option<AbsolutePath> = None => live,
        /// Annotations of pods passed to the runtime. `*` at the end stands for any text.
        pod_annotations: Vec<String> = Vec::new() => live,
        /// Annotations of containers passed to the runtime, likewise.
        container_annotations: Vec<String> = Vec::new() => live,
        /// Annotations of pods that are acted on here, such as `io.kubernetes.cri-o.ShmSize`:
        /// `docs/runtimes.md` lists them. `*` at the end stands for any text.
        allowed_annotations: Vec<String> = Vec::new() => live,
        /// Annotations that the specifications of its containers have, before those of
        /// `containers.default_annotations` and beneath those that are passed on.
        default_annotations: BTreeMap<String, String> = BTreeMap::new() => live,
        /// A file (JSON) with the specification that its containers begin with; what a pod asks for takes
        /// the place of what is in it: `docs/runtimes.md`. Empty: the built-in one.
        base_runtime_spec: Option<AbsolutePath> = None => live,
        /// Lets containers make control groups below their own, where the node has cgroup v2 with
        /// `nsdelegate`.
        cgroup_writable: bool = false => live,
        /// Keeps the host's devices from privileged containers.
        privileged_without_host_devices: bool = false => live,
        /// A CNI configuration directory for this runtime's pods alone. Empty: the one of
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
