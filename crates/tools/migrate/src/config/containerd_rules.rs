//! Rules for containerd's keys. `cri` stands for the plugins with the CRI settings, in each version of the file.

use super::rule::Rule::{Apart, As, ListOf, Lost, Needless, Not};
use super::rule::Rules;

const OWN: &str = "this setting is internal to containerd";
const ARCHIVES: &str =
    "compressed layers are removed after unpacking, unless `images.keep_blobs` is set";
const NEVER: &str = "orlop uses no pause containers";

pub(super) const RULES: Rules = &[
    (
        "version",
        Needless("this is the version of the file format"),
    ),
    ("imports", Apart),
    ("root", Apart),
    ("state", Apart),
    ("temp", Needless(OWN)),
    ("plugin_dir", Needless(OWN)),
    ("disabled_plugins", Needless(OWN)),
    ("required_plugins", Needless(OWN)),
    (
        "oom_score",
        Lost("set OOMScoreAdjust in a drop-in of orlop.service"),
    ),
    (
        "cgroup/path",
        Lost("set Slice in a drop-in of orlop.service"),
    ),
    (
        "grpc/address",
        Needless(
            "orlop listens on its own socket; start the kubelet with \
             --container-runtime-endpoint=unix:///run/orlop/orlop.sock",
        ),
    ),
    (
        "grpc/max_recv_message_size",
        Needless("orlop uses its own default of `grpc.max_message_size`"),
    ),
    (
        "grpc/max_send_message_size",
        Needless("orlop uses its own default of `grpc.max_message_size`"),
    ),
    ("grpc/gid", Apart),
    (
        "grpc/uid",
        Lost("the socket belongs to root; set a group in `grpc.group`"),
    ),
    (
        "grpc/tcp_address",
        Lost("orlop does not serve the CRI on TCP; let clients use its unix socket"),
    ),
    (
        "grpc/*",
        Needless("this setting is for TCP; orlop does not serve the CRI on TCP"),
    ),
    ("ttrpc/*", Needless(OWN)),
    ("debug/level", Apart),
    ("debug/format", Apart),
    (
        "debug/address",
        Needless("orlop serves this data at `metrics.listen`, path /debug/state"),
    ),
    ("debug/*", Needless(OWN)),
    ("metrics/address", Apart),
    (
        "metrics/grpc_histogram",
        Needless("orlop always measures the duration of calls"),
    ),
    ("timeouts/*", Needless(OWN)),
    ("stream_processors/*", Apart),
    (
        "proxy_plugins/*",
        Lost(
            "orlop does not support proxy plugins of containerd, such as snapshotters; \
             `images.lazy` replaces lazy snapshotters",
        ),
    ),
    (
        "cri/device_ownership_from_security_context",
        As("containers", "device_ownership_from_security_context"),
    ),
    (
        "cri/enable_unprivileged_icmp",
        As("containers", "unprivileged_icmp"),
    ),
    (
        "cri/enable_unprivileged_ports",
        As("containers", "unprivileged_ports"),
    ),
    (
        "cri/ignore_image_defined_volumes",
        As("containers", "ignore_image_volumes"),
    ),
    (
        "cri/max_concurrent_downloads",
        Needless("this limit of containerd is per image; `images.max_downloads` is per registry"),
    ),
    (
        "cri/max_concurrent_unpacks",
        Needless("the daemon unpacks layers while it downloads them"),
    ),
    ("cri/concurrent_layer_fetch_buffer", Needless(OWN)),
    ("cri/image_pull_progress_timeout", Apart),
    (
        "cri/image_pull_with_sync_fs",
        Needless("the daemon always syncs layers to disk before it uses them"),
    ),
    ("cri/max_container_log_line_size", Apart),
    ("cri/stream_server_address", As("streaming", "address")),
    ("cri/stream_server_port", Apart),
    ("cri/stream_idle_timeout", As("streaming", "idle_timeout")),
    (
        "cri/enable_tls_streaming",
        Needless("`streaming.tls_cert` enables TLS"),
    ),
    (
        "cri/x509_key_pair_streaming/tls_cert_file",
        As("streaming", "tls_cert"),
    ),
    (
        "cri/x509_key_pair_streaming/tls_key_file",
        As("streaming", "tls_key"),
    ),
    (
        "cri/disable_tcp_service",
        Needless("orlop serves the CRI only on unix sockets"),
    ),
    ("cri/systemd_cgroup", Apart),
    ("cri/sandbox_image", Needless(NEVER)),
    ("cri/sandbox", Needless(NEVER)),
    ("cri/pinned_images/sandbox", Needless(NEVER)),
    ("cri/pinned_images/*", Apart),
    ("cri/unset_seccomp_profile", Apart),
    (
        "cri/enable_selinux",
        Needless("SELinux labels are always applied if the kernel has SELinux"),
    ),
    (
        "cri/selinux_category_range",
        As("containers", "selinux_category_range"),
    ),
    (
        "cri/disable_apparmor",
        Lost("AppArmor profiles are always applied if the kernel has AppArmor"),
    ),
    ("cri/disable_cgroup", Lost("orlop needs cgroups")),
    (
        "cri/disable_hugetlb_controller",
        Needless("the hugetlb controller is used if it exists and a pod requests huge pages"),
    ),
    (
        "cri/tolerate_missing_hugetlb_controller",
        Needless("the hugetlb controller is used if it exists and a pod requests huge pages"),
    ),
    (
        "cri/disable_proc_mount",
        Lost(
            "pods that request an unmasked /proc get it; to prevent this, use an admission policy",
        ),
    ),
    (
        "cri/restrict_oom_score_adj",
        Lost(
            "a daemon that cannot lower the OOM score of containers fails to start them; give it \
             CAP_SYS_RESOURCE",
        ),
    ),
    (
        "cri/netns_mounts_under_state_dir",
        Needless("network namespaces are mounted below `state`"),
    ),
    (
        "cri/stats_collect_period",
        Needless("statistics are read on request"),
    ),
    (
        "cri/stats_retention_period",
        Needless("statistics are read on request"),
    ),
    (
        "cri/drain_exec_sync_io_timeout",
        Lost("the output of a command is read until the deadline of the call"),
    ),
    (
        "cri/enable_criu",
        Needless("checkpoints are enabled if CRIU is installed"),
    ),
    ("cri/enable_cdi", Apart),
    ("cri/cdi_spec_dirs", As("containers", "cdi_dirs")),
    ("cri/ignore_deprecation_warnings", Needless(OWN)),
    ("cri/cni/bin_dir", ListOf("network", "bin_dirs")),
    ("cri/cni/bin_dirs", As("network", "bin_dirs")),
    ("cri/cni/conf_dir", As("network", "conf_dir")),
    ("cri/cni/conf_template", As("network", "conf_template")),
    ("cri/cni/max_conf_num", Apart),
    ("cri/cni/ip_pref", Apart),
    (
        "cri/cni/setup_serially",
        Needless("the networks of a pod are always attached one after the other"),
    ),
    (
        "cri/cni/use_internal_loopback",
        Needless("the daemon always sets up the loopback interface itself"),
    ),
    ("cri/containerd/default_runtime_name", Apart),
    ("cri/containerd/snapshotter", Apart),
    ("cri/snapshotter", Apart),
    (
        "cri/containerd/disable_snapshot_annotations",
        Needless("orlop has no snapshotters"),
    ),
    (
        "cri/disable_snapshot_annotations",
        Needless("orlop has no snapshotters"),
    ),
    ("cri/containerd/discard_unpacked_layers", Needless(ARCHIVES)),
    ("cri/discard_unpacked_layers", Needless(ARCHIVES)),
    (
        "cri/containerd/ignore_rdt_not_enabled_errors",
        Needless("containers with a class that is not in `containers.rdt_config` are rejected"),
    ),
    (
        "cri/containerd/ignore_blockio_not_enabled_errors",
        Needless("containers with a class that is not in `containers.blockio_config` are rejected"),
    ),
    (
        "cri/containerd/no_pivot",
        Lost(
            "orlop-run always uses pivot_root; use another runtime if the root filesystem is an \
             initramfs",
        ),
    ),
    ("cri/containerd/runtimes/*", Apart),
    ("cri/containerd/default_runtime/*", Apart),
    (
        "cri/containerd/untrusted_workload_runtime/*",
        Lost("select a handler in the pods with runtimeClassName"),
    ),
    (
        "cri/runtime_platforms/*",
        Lost("runtimes have no separate snapshotter"),
    ),
    (
        "cri/image_decryption/key_model",
        Needless("keys belong to the node or to pod namespaces (docs/guides/encryption.md)"),
    ),
    ("cri/registry/*", Apart),
    ("cri/use_local_image_pull", Needless(OWN)),
    (
        "plugins/io.containerd.nri.v1.nri/disable",
        Not("nri", "enable"),
    ),
    (
        "plugins/io.containerd.nri.v1.nri/socket_path",
        As("nri", "socket"),
    ),
    (
        "plugins/io.containerd.nri.v1.nri/plugin_path",
        As("nri", "plugin_dir"),
    ),
    (
        "plugins/io.containerd.nri.v1.nri/plugin_config_path",
        As("nri", "plugin_config_dir"),
    ),
    (
        "plugins/io.containerd.nri.v1.nri/plugin_registration_timeout",
        As("nri", "registration_timeout"),
    ),
    (
        "plugins/io.containerd.nri.v1.nri/plugin_request_timeout",
        As("nri", "request_timeout"),
    ),
    (
        "plugins/io.containerd.nri.v1.nri/disable_connections",
        Not("nri", "external_connections"),
    ),
    (
        "plugins/io.containerd.nri.v1.nri/default_validator/enable",
        As("nri", "validator"),
    ),
    (
        "plugins/io.containerd.nri.v1.nri/default_validator/reject_oci_hook_adjustment",
        As("nri", "reject_oci_hooks"),
    ),
    (
        "plugins/io.containerd.nri.v1.nri/default_validator/reject_runtime_default_seccomp_adjustment",
        As("nri", "reject_runtime_default_seccomp"),
    ),
    (
        "plugins/io.containerd.nri.v1.nri/default_validator/reject_unconfined_seccomp_adjustment",
        As("nri", "reject_unconfined_seccomp"),
    ),
    (
        "plugins/io.containerd.nri.v1.nri/default_validator/reject_custom_seccomp_adjustment",
        As("nri", "reject_custom_seccomp"),
    ),
    (
        "plugins/io.containerd.nri.v1.nri/default_validator/reject_namespace_adjustment",
        As("nri", "reject_namespaces"),
    ),
    (
        "plugins/io.containerd.nri.v1.nri/default_validator/reject_sysctl_adjustment",
        As("nri", "reject_sysctls"),
    ),
    (
        "plugins/io.containerd.nri.v1.nri/default_validator/required_plugins",
        As("nri", "required_plugins"),
    ),
    (
        "plugins/io.containerd.nri.v1.nri/default_validator/tolerate_missing_plugins_annotation",
        As("nri", "tolerate_missing_annotation"),
    ),
    (
        "plugins/io.containerd.service.v1.tasks-service/blockio_config_file",
        As("containers", "blockio_config"),
    ),
    (
        "plugins/io.containerd.service.v1.tasks-service/rdt_config_file",
        As("containers", "rdt_config"),
    ),
    (
        "plugins/io.containerd.tracing.processor.v1.otlp/*",
        Lost("set `traces.otlp` to the address of the collector"),
    ),
    (
        "plugins/io.containerd.internal.v1.tracing/*",
        Lost("set `traces.otlp` to the address of the collector"),
    ),
    ("plugins/*", Needless(OWN)),
];
