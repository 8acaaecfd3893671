//! Rules for CRI-O's keys.

use super::rule::Rule::{Apart, As, Lost, Needless, Not};
use super::rule::Rules;

const OWN: &str = "this setting is internal to CRI-O";
const KEEPER: &str = "orlop-keeper replaces conmon";
const PAUSE: &str = "orlop uses no pause containers";

pub(super) const RULES: Rules = &[
    ("crio/root", Apart),
    ("crio/runroot", Apart),
    (
        "crio/imagestore",
        Lost("orlop has a single image store (`root`)"),
    ),
    (
        "crio/storage_driver",
        Needless("layers are directories or EROFS images (`images.store`)"),
    ),
    (
        "crio/storage_option",
        Needless("layers are directories or EROFS images (`images.store`)"),
    ),
    (
        "crio/log_dir",
        Needless("the kubelet sets the log directory"),
    ),
    ("crio/version_file", Needless(OWN)),
    ("crio/version_file_persist", Needless(OWN)),
    ("crio/clean_shutdown_file", Needless(OWN)),
    (
        "crio/internal_wipe",
        Needless("the daemon cleans up after a reboot when it starts"),
    ),
    (
        "crio/internal_repair",
        Needless("use `orlop doctor --repair`"),
    ),
    (
        "crio/api/listen",
        Needless(
            "orlop listens on its own socket; start the kubelet with \
             --container-runtime-endpoint=unix:///run/orlop/orlop.sock",
        ),
    ),
    ("crio/api/stream_address", As("streaming", "address")),
    (
        "crio/api/stream_port",
        Lost("orlop uses any free port; set `streaming.port` if a firewall needs a fixed port"),
    ),
    (
        "crio/api/stream_enable_tls",
        Needless("`streaming.tls_cert` enables TLS"),
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
    // Since 1.36 also for its metrics.
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
        Needless("orlop uses its own default of `grpc.max_message_size`"),
    ),
    (
        "crio/api/grpc_max_recv_msg_size",
        Needless("orlop uses its own default of `grpc.max_message_size`"),
    ),
    ("crio/runtime/default_ulimits", As("containers", "ulimits")),
    (
        "crio/runtime/no_pivot",
        Lost("orlop-run always uses pivot_root"),
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
        Lost(
            "environment variables for all containers have no equivalent; add them with an NRI \
             plugin",
        ),
    ),
    (
        "crio/runtime/selinux",
        Needless("SELinux labels are always applied if the kernel has SELinux"),
    ),
    (
        "crio/runtime/seccomp_profile",
        Lost("the default profile is built in; select your own profile in pods (localhostProfile)"),
    ),
    (
        "crio/runtime/seccomp_use_default_when_empty",
        As("containers", "seccomp_when_unset"),
    ),
    (
        "crio/runtime/privileged_seccomp_profile",
        Lost("privileged containers run without a profile"),
    ),
    (
        "crio/runtime/apparmor_profile",
        Needless("orlop has its own default profile; pods can select other profiles"),
    ),
    (
        "crio/runtime/blockio_config_file",
        As("containers", "blockio_config"),
    ),
    (
        "crio/runtime/blockio_reload",
        Needless("use `orlop config reload`"),
    ),
    (
        "crio/runtime/irqbalance_config_file",
        Lost("the runtime does not balance interrupts; use an NRI plugin"),
    ),
    (
        "crio/runtime/irqbalance_config_restore_file",
        Needless("the runtime does not balance interrupts"),
    ),
    (
        "crio/runtime/rdt_config_file",
        As("containers", "rdt_config"),
    ),
    ("crio/runtime/cgroup_manager", Apart),
    (
        "crio/runtime/default_capabilities",
        Lost(
            "containers get the default capabilities of CRI runtimes; add or drop others in the \
             pods",
        ),
    ),
    (
        "crio/runtime/add_inheritable_capabilities",
        Lost("containers have no inheritable capabilities"),
    ),
    ("crio/runtime/default_sysctls", Apart),
    (
        "crio/runtime/allowed_devices",
        Lost("devices by annotation have no equivalent; use a device plugin or CDI"),
    ),
    (
        "crio/runtime/additional_devices",
        Lost("devices for all containers have no equivalent; use CDI, or an NRI plugin"),
    ),
    ("crio/runtime/cdi_spec_dirs", As("containers", "cdi_dirs")),
    (
        "crio/runtime/device_ownership_from_security_context",
        As("containers", "device_ownership_from_security_context"),
    ),
    ("crio/runtime/hooks_dir", As("hooks", "dirs")),
    (
        "crio/runtime/default_mounts_file",
        Lost("mounts for all containers have no equivalent; add them with an NRI plugin"),
    ),
    (
        "crio/runtime/absent_mount_sources_to_reject",
        Lost("the daemon creates missing directories if the kubelet requests them"),
    ),
    ("crio/runtime/pids_limit", Apart),
    (
        "crio/runtime/log_filter",
        Lost("log filters have no equivalent; use `log.level`"),
    ),
    ("crio/runtime/log_size_max", Apart),
    (
        "crio/runtime/log_to_journald",
        Lost("container logs are only written to files; use a log agent"),
    ),
    ("crio/runtime/container_exits_dir", Needless(OWN)),
    ("crio/runtime/container_attach_socket_dir", Needless(OWN)),
    (
        "crio/runtime/bind_mount_prefix",
        Lost("mount paths are used without a prefix"),
    ),
    (
        "crio/runtime/read_only",
        Lost(
            "each container sets readOnlyRootFilesystem itself; to enforce it, use an admission \
             policy",
        ),
    ),
    ("crio/runtime/log_level", Apart),
    (
        "crio/runtime/uid_mappings",
        Needless("the kubelet assigns user namespaces (hostUsers)"),
    ),
    (
        "crio/runtime/gid_mappings",
        Needless("the kubelet assigns user namespaces (hostUsers)"),
    ),
    (
        "crio/runtime/minimum_mappable_uid",
        Needless("the kubelet assigns user namespaces (hostUsers)"),
    ),
    (
        "crio/runtime/minimum_mappable_gid",
        Needless("the kubelet assigns user namespaces (hostUsers)"),
    ),
    (
        "crio/runtime/ctr_stop_timeout",
        Needless("the kubelet sets the stop timeout"),
    ),
    ("crio/runtime/drop_infra_ctr", Needless(PAUSE)),
    ("crio/runtime/infra_ctr_cpuset", Needless(PAUSE)),
    (
        "crio/runtime/shared_cpuset",
        Lost("shared processors by annotation have no equivalent; use an NRI plugin"),
    ),
    (
        "crio/runtime/namespaces_dir",
        Needless("namespaces are mounted below `state`"),
    ),
    (
        "crio/runtime/pinns_path",
        Needless("orlop-keeper holds namespaces"),
    ),
    (
        "crio/runtime/enable_criu_support",
        Needless("checkpoints are enabled if CRIU is installed"),
    ),
    (
        "crio/checkpoint_restore/*",
        Needless("checkpoints are enabled if CRIU is installed"),
    ),
    (
        "crio/runtime/additional_artifact_stores",
        Lost("orlop has a single artifact store (`root`)"),
    ),
    (
        "crio/runtime/separate_pull_cgroup",
        Lost("pulls run in the cgroup of the daemon; set limits in orlop.service"),
    ),
    (
        "crio/runtime/enable_pod_events",
        Needless("pod events are always enabled"),
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
        Lost("the CNI network maps host ports; remove `portmap` from its configuration"),
    ),
    ("crio/runtime/runtimes/*", Apart),
    (
        "crio/runtime/workloads/*",
        Lost("workloads by annotation have no equivalent; use an NRI plugin"),
    ),
    (
        "crio/image/default_transport",
        Needless("images always come from registries"),
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
            "create a hosts.toml with `skip_verify` for each registry, or list the registries in \
             registries.conf (docs/guides/registries.md)",
        ),
    ),
    (
        "crio/image/registries",
        Lost(
            "list these registries as unqualified-search-registries in registries.conf, and set \
             `images.registries_conf` to that file",
        ),
    ),
    ("crio/image/image_volumes", Apart),
    (
        "crio/image/big_files_temporary_dir",
        Needless("downloads are stored below `root`"),
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
        Needless("artifact mounts are always enabled (docs/guides/images.md)"),
    ),
    (
        "crio/image/short_name_mode",
        Needless("set `short-name-mode` in registries.conf"),
    ),
    (
        "crio/network/cni_default_network",
        Lost(
            "orlop uses the first file in `network.conf_dir`; rename the file of this network so \
             that it is the first",
        ),
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
        Needless("all metrics of orlop are always enabled"),
    ),
    (
        "crio/metrics/*",
        Lost("set `metrics.listen` to the address of the endpoint"),
    ),
    (
        "crio/tracing/enable_tracing",
        Lost("set `traces.otlp` to the address of the collector"),
    ),
    (
        "crio/tracing/*",
        Needless("`traces.otlp` sets the collector"),
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
        Lost("set the matching key of [nri] (docs/guides/nri.md)"),
    ),
    ("crio/stats/*", Needless("statistics are read on request")),
];
