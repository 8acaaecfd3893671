//! CRI-O's keys.

use super::rule::Rule::{Apart, As, Lost, Needless, Not};
use super::rule::Rules;

const OWN: &str = "CRI-O's own affair";
const KEEPER: &str = "orlop-keeper is in the place of conmon";
const PAUSE: &str = "orlop has no pause containers";

pub(super) const RULES: Rules = &[
    ("crio/root", Apart),
    ("crio/runroot", Apart),
    ("crio/imagestore", Lost("images are in one store: `root`")),
    (
        "crio/storage_driver",
        Needless("layers are directories or EROFS: `images.store`"),
    ),
    (
        "crio/storage_option",
        Needless("layers are directories or EROFS: `images.store`"),
    ),
    ("crio/log_dir", Needless("the kubelet says where logs are")),
    ("crio/version_file", Needless(OWN)),
    ("crio/version_file_persist", Needless(OWN)),
    ("crio/clean_shutdown_file", Needless(OWN)),
    (
        "crio/internal_wipe",
        Needless("what a reboot ended is cleared away at the start"),
    ),
    (
        "crio/internal_repair",
        Needless("`orlop doctor --repair` does it"),
    ),
    (
        "crio/api/listen",
        Needless(
            "orlop listens on its own socket: give the kubelet --container-runtime-endpoint=unix:///run/orlop/orlop.sock",
        ),
    ),
    ("crio/api/stream_address", As("streaming", "address")),
    (
        "crio/api/stream_port",
        Lost("orlop takes any free port: set `streaming.port` where a firewall must know it"),
    ),
    (
        "crio/api/stream_enable_tls",
        Needless("`streaming.tls_cert` says it"),
    ),
    ("crio/api/stream_tls_cert", As("streaming", "tls_cert")),
    ("crio/api/stream_tls_key", As("streaming", "tls_key")),
    ("crio/api/stream_tls_ca", As("streaming", "client_ca")),
    (
        "crio/api/stream_tls_min_version",
        As("streaming", "tls_min_version"),
    ),
    (
        "crio/api/stream_tls_cipher_suites",
        As("streaming", "tls_cipher_suites"),
    ),
    // Since 1.36, of its metrics, too.
    (
        "crio/api/tls_min_version",
        As("streaming", "tls_min_version"),
    ),
    (
        "crio/api/tls_cipher_suites",
        As("streaming", "tls_cipher_suites"),
    ),
    (
        "crio/api/stream_idle_timeout",
        As("streaming", "idle_timeout"),
    ),
    (
        "crio/api/grpc_max_send_msg_size",
        Needless("`grpc.max_message_size` has a default of its own"),
    ),
    (
        "crio/api/grpc_max_recv_msg_size",
        Needless("`grpc.max_message_size` has a default of its own"),
    ),
    ("crio/runtime/default_ulimits", As("containers", "ulimits")),
    (
        "crio/runtime/no_pivot",
        Lost("orlop-run always changes its root by pivot_root"),
    ),
    (
        "crio/runtime/decryption_keys_path",
        As("images", "decryption_keys"),
    ),
    ("crio/runtime/conmon", Needless(KEEPER)),
    ("crio/runtime/conmon_cgroup", Needless(KEEPER)),
    ("crio/runtime/conmon_env", Needless(KEEPER)),
    (
        "crio/runtime/default_env",
        Lost("variables for all containers have no key: have an NRI plugin add them"),
    ),
    (
        "crio/runtime/selinux",
        Needless("labels are applied wherever the kernel has SELinux"),
    ),
    (
        "crio/runtime/seccomp_profile",
        Lost("the default profile is built in: name your own in pods (localhostProfile)"),
    ),
    (
        "crio/runtime/seccomp_use_default_when_empty",
        As("containers", "seccomp_when_unset"),
    ),
    (
        "crio/runtime/privileged_seccomp_profile",
        Lost("privileged containers have no profile"),
    ),
    (
        "crio/runtime/apparmor_profile",
        Needless("the default profile is orlop's own; pods name others"),
    ),
    (
        "crio/runtime/blockio_config_file",
        As("containers", "blockio_config"),
    ),
    (
        "crio/runtime/blockio_reload",
        Needless("`orlop config reload` does it"),
    ),
    (
        "crio/runtime/irqbalance_config_file",
        Lost("interrupts are not balanced by the runtime: have an NRI plugin do it"),
    ),
    (
        "crio/runtime/irqbalance_config_restore_file",
        Needless("interrupts are not balanced by the runtime"),
    ),
    (
        "crio/runtime/rdt_config_file",
        As("containers", "rdt_config"),
    ),
    ("crio/runtime/cgroup_manager", Apart),
    (
        "crio/runtime/default_capabilities",
        Lost(
            "containers have the capabilities that the CRI's runtimes agree on: have pods add or drop others",
        ),
    ),
    (
        "crio/runtime/add_inheritable_capabilities",
        Lost("no capabilities are inheritable"),
    ),
    ("crio/runtime/default_sysctls", Apart),
    (
        "crio/runtime/allowed_devices",
        Lost("devices by annotation have no counterpart: use a device plugin or CDI"),
    ),
    (
        "crio/runtime/additional_devices",
        Lost("devices for all containers have no key: use CDI, or an NRI plugin"),
    ),
    ("crio/runtime/cdi_spec_dirs", As("containers", "cdi_dirs")),
    (
        "crio/runtime/device_ownership_from_security_context",
        As("containers", "device_ownership_from_security_context"),
    ),
    ("crio/runtime/hooks_dir", As("hooks", "dirs")),
    (
        "crio/runtime/default_mounts_file",
        Lost("mounts for all containers have no key: have an NRI plugin add them"),
    ),
    (
        "crio/runtime/absent_mount_sources_to_reject",
        Lost("directories that are missing are made as the kubelet asks"),
    ),
    ("crio/runtime/pids_limit", Apart),
    (
        "crio/runtime/log_filter",
        Lost("the log has levels alone: `log.level`"),
    ),
    ("crio/runtime/log_size_max", Apart),
    (
        "crio/runtime/log_to_journald",
        Lost("containers' logs are files alone: have an agent read them"),
    ),
    ("crio/runtime/container_exits_dir", Needless(OWN)),
    ("crio/runtime/container_attach_socket_dir", Needless(OWN)),
    (
        "crio/runtime/bind_mount_prefix",
        Lost("mounts are where they say"),
    ),
    (
        "crio/runtime/read_only",
        Lost("root file systems are as pods say: forbid writable ones by admission"),
    ),
    ("crio/runtime/log_level", Apart),
    (
        "crio/runtime/uid_mappings",
        Needless("user namespaces are the kubelet's to say (hostUsers)"),
    ),
    (
        "crio/runtime/gid_mappings",
        Needless("user namespaces are the kubelet's to say (hostUsers)"),
    ),
    (
        "crio/runtime/minimum_mappable_uid",
        Needless("user namespaces are the kubelet's to say (hostUsers)"),
    ),
    (
        "crio/runtime/minimum_mappable_gid",
        Needless("user namespaces are the kubelet's to say (hostUsers)"),
    ),
    (
        "crio/runtime/ctr_stop_timeout",
        Needless("the kubelet says how long"),
    ),
    ("crio/runtime/drop_infra_ctr", Needless(PAUSE)),
    ("crio/runtime/infra_ctr_cpuset", Needless(PAUSE)),
    (
        "crio/runtime/shared_cpuset",
        Lost(
            "processors that pods share by annotation have no counterpart: have an NRI plugin do it",
        ),
    ),
    (
        "crio/runtime/namespaces_dir",
        Needless("names of namespaces are below `state`"),
    ),
    (
        "crio/runtime/pinns_path",
        Needless("orlop-keeper holds namespaces"),
    ),
    (
        "crio/runtime/enable_criu_support",
        Needless("checkpoints are made where criu is there"),
    ),
    (
        "crio/checkpoint_restore/*",
        Needless("checkpoints are made where criu is there"),
    ),
    (
        "crio/runtime/additional_artifact_stores",
        Lost("artifacts are in one store: `root`"),
    ),
    (
        "crio/runtime/separate_pull_cgroup",
        Lost("pulls are in the daemon's cgroup: limit that of its unit"),
    ),
    (
        "crio/runtime/enable_pod_events",
        Needless("events are always there"),
    ),
    ("crio/runtime/default_runtime", As("", "default_runtime")),
    ("crio/runtime/timezone", As("containers", "timezone")),
    (
        "crio/runtime/hostnetwork_disable_selinux",
        As("containers", "host_network_unconfined"),
    ),
    (
        "crio/runtime/min_injected_gomaxprocs",
        As("containers", "min_gomaxprocs"),
    ),
    (
        "crio/runtime/disable_hostport_mapping",
        Lost("host ports are mapped by the network: leave `portmap` out of it"),
    ),
    ("crio/runtime/runtimes/*", Apart),
    (
        "crio/runtime/workloads/*",
        Lost("workloads by annotation have no counterpart: have an NRI plugin do it"),
    ),
    (
        "crio/image/default_transport",
        Needless("images come from registries"),
    ),
    ("crio/image/global_auth_file", Apart),
    (
        "crio/image/namespaced_auth_dir",
        As("images", "credentials_dir"),
    ),
    ("crio/image/pause_image", Needless(PAUSE)),
    ("crio/image/pause_image_auth_file", Needless(PAUSE)),
    ("crio/image/pause_command", Needless(PAUSE)),
    ("crio/image/pinned_images", Apart),
    (
        "crio/image/signature_policy",
        As("images", "signature_policy"),
    ),
    (
        "crio/image/signature_policy_dir",
        As("images", "signature_policy_dir"),
    ),
    (
        "crio/image/insecure_registries",
        Lost(
            "name each in a hosts.toml with `skip_verify`, or in registries.conf: docs/registries.md",
        ),
    ),
    (
        "crio/image/registries",
        Lost(
            "name them in registries.conf as unqualified-search-registries, and that in `images.registries_conf`",
        ),
    ),
    ("crio/image/image_volumes", Apart),
    (
        "crio/image/big_files_temporary_dir",
        Needless("downloads are kept below `root`"),
    ),
    (
        "crio/image/auto_reload_registries",
        Needless("registries.conf is read at each pull"),
    ),
    (
        "crio/image/pull_progress_timeout",
        As("images", "progress_timeout"),
    ),
    (
        "crio/image/oci_artifact_mount_support",
        Needless("artifacts are mounted always: docs/images.md"),
    ),
    (
        "crio/image/short_name_mode",
        Needless("registries.conf says it: `short-name-mode`"),
    ),
    (
        "crio/network/cni_default_network",
        Lost("the first file of `network.conf_dir` decides: give the network that name"),
    ),
    ("crio/network/cni_status_grace_period", Apart),
    ("crio/network/network_dir", As("network", "conf_dir")),
    ("crio/network/plugin_dir", Apart),
    ("crio/network/plugin_dirs", As("network", "bin_dirs")),
    ("crio/metrics/enable_metrics", Apart),
    ("crio/metrics/metrics_cert", As("metrics", "tls_cert")),
    ("crio/metrics/metrics_key", As("metrics", "tls_key")),
    (
        "crio/metrics/metrics_collectors",
        Needless("all of orlop's metrics are always there"),
    ),
    (
        "crio/metrics/*",
        Lost("set `metrics.listen` to the address that is asked"),
    ),
    (
        "crio/tracing/enable_tracing",
        Lost("name the collector in `traces.otlp`"),
    ),
    (
        "crio/tracing/*",
        Needless("`traces.otlp` names the collector"),
    ),
    ("crio/nri/enable_nri", As("nri", "enable")),
    ("crio/nri/nri_listen", As("nri", "socket")),
    ("crio/nri/nri_plugin_dir", As("nri", "plugin_dir")),
    (
        "crio/nri/nri_plugin_config_dir",
        As("nri", "plugin_config_dir"),
    ),
    (
        "crio/nri/nri_plugin_registration_timeout",
        As("nri", "registration_timeout"),
    ),
    (
        "crio/nri/nri_plugin_request_timeout",
        As("nri", "request_timeout"),
    ),
    (
        "crio/nri/nri_disable_connections",
        Not("nri", "external_connections"),
    ),
    (
        "crio/nri/*",
        Lost("set the key of [nri] that says it: docs/nri.md"),
    ),
    (
        "crio/stats/*",
        Needless("figures are read when they are asked for"),
    ),
];
