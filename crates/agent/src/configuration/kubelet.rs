//! The table of the kubelet's configuration, `KubeletConfiguration` of Kubernetes 1.36: every field
//! with its type, default, flag and effect.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::LazyLock;
use std::time::Duration;

use orlop_flag::{Flag, flag};
use orlop_kubelet_rules::pod::Quantity;

use super::setting::{Setting, kubelet_config, own_thresholds, thresholds};
use crate::document::Schema;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

kubelet_config! {
    /// The fields of a `KubeletConfiguration` that have an effect, under its names, each at the
    /// kubelet's default unless said otherwise.
    KubeletConfiguration as "KubeletConfiguration" {
        /// Whether there is an HTTPS server at all.
        enable_server as "enableServer": bool = true => unset
            @ flag("enable-server", "BOOL", "Serve HTTPS at all [default: true]"),
        /// A directory of manifests, or one file.
        static_pod_path as "staticPodPath": String = String::new() => unset
            @ flag("pod-manifest-path", "PATH",
                "A directory of manifests, or one file; - is the standard input"),
        /// Where the pods' logs are.
        pod_logs_dir as "podLogsDir": String = "/var/log/pods".to_owned() => unset
            @ flag("pod-logs-dir", "DIR", "Where the pods' logs are [default: /var/log/pods]"),
        /// How often a pod is looked at without anything having happened.
        sync_frequency as "syncFrequency": Duration = Duration::from_mins(1) => zero
            @ flag("sync-frequency", "TIME",
                "How often a pod is looked at without anything having happened [default: 1m]"),
        /// How often manifests are read without a change having been noticed.
        file_check_frequency as "fileCheckFrequency": Duration = Duration::from_secs(20) => zero
            @ flag("file-check-frequency", "TIME",
                "How often manifests are read without a change having been noticed [default: 20s]"),
        /// How often the URL is asked.
        http_check_frequency as "httpCheckFrequency": Duration = Duration::from_secs(20) => zero
            @ flag("http-check-frequency", "TIME", "How often the URL is asked [default: 20s]"),
        /// A URL with manifests.
        static_pod_url as "staticPodURL": String = String::new() => unset
            @ flag("manifest-url", "URL", "A URL with manifests"),
        /// Headers for that URL.
        static_pod_url_header as "staticPodURLHeader": BTreeMap<String, Vec<String>>
            = BTreeMap::new() => unset
            @ flag("manifest-url-header", "HEADER",
                "A header for that URL, as name:value; may be given more than once"),
        /// Where the servers listen. Unlike the kubelet's, this is loopback until said otherwise.
        address as "address": IpAddr = LOOPBACK => unset
            @ flag("address", "ADDRESS", "Where the servers listen [default: 127.0.0.1]"),
        /// The HTTPS server's port.
        port as "port": u16 = 10250 => zero
            @ flag("port", "PORT", "The port of HTTPS [default: 10250]"),
        /// The port of the server that asks for no credentials; 0 for none.
        read_only_port as "readOnlyPort": u16 = 0 => unset
            @ flag("read-only-port", "PORT",
                "The port that asks for no credentials and only reads; 0 for none [default: 0]"),
        /// A certificate for HTTPS; without one the agent makes its own.
        tls_cert_file as "tlsCertFile": String = String::new() => unset
            @ flag("tls-cert-file", "FILE",
                "The certificate for HTTPS [default: one that the agent makes]"),
        /// The certificate's key.
        tls_private_key_file as "tlsPrivateKeyFile": String = String::new() => unset
            @ flag("tls-private-key-file", "FILE", "Its key"),
        /// `VersionTLS12` or `VersionTLS13`.
        tls_min_version as "tlsMinVersion": String = String::new() => unset
            @ flag("tls-min-version", "VERSION", "VersionTLS12 or VersionTLS13"),
        /// The cipher suites that may be used, by their names in IANA's list.
        tls_cipher_suites as "tlsCipherSuites": Vec<String> = Vec::new() => unset
            @ flag("tls-cipher-suites", "NAMES", "The cipher suites that may be used, separated by commas").commas(),
        /// Who may come in.
        authentication as "authentication": Authentication = Authentication::default() => unset,
        /// What they may do.
        authorization as "authorization": Authorization = Authorization::default() => unset,
        /// Pulls per second; 0 for no bound.
        registry_pull_qps as "registryPullQPS": u32 = 5 => unset
            @ flag("registry-qps", "N", "Pulls per second; 0 for no bound [default: 5]"),
        /// Pulls at once above that.
        registry_burst as "registryBurst": u32 = 10 => zero
            @ flag("registry-burst", "N", "Pulls at once above that [default: 10]"),
        /// Whether logs, exec, attach and port-forward are served.
        enable_debugging_handlers as "enableDebuggingHandlers": bool = true => unset
            @ flag("enable-debugging-handlers", "BOOL",
                "Serve logs, exec, attach and port-forward [default: true]"),
        /// The port of `/healthz` without credentials; 0 for none.
        healthz_port as "healthzPort": u16 = 10248 => unset
            @ flag("healthz-port", "PORT", "The port of /healthz; 0 for none [default: 10248]"),
        /// Where that one listens.
        healthz_bind_address as "healthzBindAddress": IpAddr = LOOPBACK => unset
            @ flag("healthz-bind-address", "ADDRESS",
                "Where that one listens [default: 127.0.0.1]"),
        /// The agent's own `oom_score_adj`.
        oom_score_adj as "oomScoreAdj": i32 = -999 => unset
            @ flag("oom-score-adj", "N", "The agent's own oom_score_adj [default: -999]"),
        /// The domain of services.
        cluster_domain as "clusterDomain": String = String::new() => unset
            @ flag("cluster-domain", "DOMAIN", "The domain of services"),
        /// Name servers of pods.
        cluster_dns as "clusterDNS": Vec<IpAddr> = Vec::new() => unset
            @ flag("cluster-dns", "ADDRESS", "Name servers of pods").commas(),
        /// An exec, attach or port-forward without traffic ends after so long.
        streaming_connection_idle_timeout as "streamingConnectionIdleTimeout": Duration
            = Duration::from_hours(4) => zero
            @ flag("streaming-connection-idle-timeout", "TIME",
                "An exec, attach or port-forward without traffic ends after so long [default: 4h]"),
        /// Unused images stay at least so long.
        image_minimum_gc_age as "imageMinimumGCAge": Duration = Duration::from_mins(2) => zero
            @ flag("minimum-image-ttl-duration", "TIME",
                "Unused images stay at least so long [default: 2m]"),
        /// Unused images stay no longer; 0 for no bound.
        image_maximum_gc_age as "imageMaximumGCAge": Duration = Duration::ZERO => unset,
        /// Above it images are removed.
        image_gc_high_threshold_percent as "imageGCHighThresholdPercent": u8 = 85 => unset
            @ flag("image-gc-high-threshold", "PERCENT",
                "Remove images when the disk is fuller than this, in percent [default: 85]"),
        /// Until this is reached.
        image_gc_low_threshold_percent as "imageGCLowThresholdPercent": u8 = 80 => unset
            @ flag("image-gc-low-threshold", "PERCENT",
                "Until it is no fuller than this [default: 80]"),
        /// What the pods' cgroups are beneath.
        cgroup_root as "cgroupRoot": String = String::new() => unset
            @ flag("cgroup-root", "CGROUP", "What the pods' cgroups are beneath [default: /]"),
        /// Whether pods have cgroups by class.
        cgroups_per_qos as "cgroupsPerQOS": bool = true => unset
            @ flag("cgroups-per-qos", "BOOL",
                "Put pods into cgroups by their class [default: true]"),
        /// `cgroupfs` or `systemd`.
        cgroup_driver as "cgroupDriver": String = "cgroupfs".to_owned() => unset
            @ flag("cgroup-driver", "NAME",
                "Who makes cgroups: cgroupfs or systemd [default: cgroupfs]"),
        /// How long the runtime may take.
        runtime_request_timeout as "runtimeRequestTimeout": Duration
            = Duration::from_mins(2) => zero
            @ flag("runtime-request-timeout", "TIME",
                "How long the runtime may take [default: 2m]"),
        /// How many pods there may be.
        max_pods as "maxPods": u32 = 110 => zero
            @ flag("max-pods", "N", "How many pods there may be [default: 110]"),
        /// How many processes a pod may have; negative for no bound.
        pod_pids_limit as "podPidsLimit": i64 = -1 => unset
            @ flag("pod-max-pids", "N", "How many processes a pod may have; -1 for no bound"),
        /// The node's name resolution.
        resolv_conf as "resolvConf": String = "/etc/resolv.conf".to_owned() => unset
            @ flag("resolv-conf", "FILE", "The node's name resolution [default: /etc/resolv.conf]"),
        /// Whether processor limits hold.
        cpu_cfs_quota as "cpuCFSQuota": bool = true => unset
            @ flag("cpu-cfs-quota", "BOOL",
                "Hold containers to their processor limits [default: true]"),
        /// Files that the agent may have open.
        max_open_files as "maxOpenFiles": u64 = 1_000_000 => zero
            @ flag("max-open-files", "N", "Files that the agent may have open [default: 1000000]"),
        /// One pull at a time; on unless `maxParallelImagePulls` is 2 or more.
        serialize_image_pulls as "serializeImagePulls": Option<bool> = None => unset
            @ flag("serialize-image-pulls", "BOOL", "One pull at a time"),
        /// Pulls at the same time.
        max_parallel_image_pulls as "maxParallelImagePulls": Option<usize> = None => unset,
        /// Signals and thresholds at which pods are ended at once.
        eviction_hard as "evictionHard": Option<BTreeMap<String, String>> = None => unset
            @ flag("eviction-hard", "THRESHOLDS",
                "End pods at once below these, as \
                 memory.available<100Mi,nodefs.available<10%; empty for none"); own_thresholds,
        /// Those at which they are ended after a while.
        eviction_soft as "evictionSoft": BTreeMap<String, String> = BTreeMap::new() => unset
            @ flag("eviction-soft", "THRESHOLDS", "End pods below these after a while"); thresholds,
        /// How long that while is.
        eviction_soft_grace_period as "evictionSoftGracePeriod": BTreeMap<String, String>
            = BTreeMap::new() => unset
            @ flag("eviction-soft-grace-period", "TIMES",
                "How long that while is, as memory.available=30s"),
        /// How long the node is said to be under pressure after it no longer is.
        eviction_pressure_transition_period as "evictionPressureTransitionPeriod": Duration
            = Duration::from_mins(5) => zero
            @ flag("eviction-pressure-transition-period", "TIME",
                "How long the node is said to be under pressure after it no longer is [default: \
                 5m]"),
        /// The longest grace period of pods that a soft threshold ends.
        eviction_max_pod_grace_period as "evictionMaxPodGracePeriod": i64 = 0 => unset
            @ flag("eviction-max-pod-grace-period", "SECONDS",
                "The longest grace period of pods that a soft threshold ends, in seconds [default: \
                 0]"),
        /// How much is reclaimed beyond a threshold.
        eviction_minimum_reclaim as "evictionMinimumReclaim": BTreeMap<String, String>
            = BTreeMap::new() => unset
            @ flag("eviction-minimum-reclaim", "LIST",
                "How much is reclaimed beyond a threshold, as imagefs.available=2Gi"),
        /// Whether signals that `evictionHard` does not name keep their defaults.
        merge_default_eviction_settings as "mergeDefaultEvictionSettings": bool = false => unset,
        /// How many pods there may be for each processor; 0 for no bound.
        pods_per_core as "podsPerCore": u32 = 0 => unset
            @ flag("pods-per-core", "N",
                "How many pods there may be for each processor; 0 for no bound [default: 0]"),
        /// Refuse to start while the node swaps. Unlike the kubelet's, this is off until said
        /// otherwise.
        fail_swap_on as "failSwapOn": bool = false => unset
            @ flag("fail-swap-on", "BOOL", "Refuse to start while the node swaps [default: false]"),
        /// Above it a log is rotated.
        container_log_max_size as "containerLogMaxSize": Quantity
            = Quantity::from_bytes(10 << 20) => unset
            @ flag("container-log-max-size", "SIZE", "Above it a log is rotated [default: 10Mi]"),
        /// How many files a log has.
        container_log_max_files as "containerLogMaxFiles": u32 = 5 => unset
            @ flag("container-log-max-files", "N", "How many files a log has [default: 5]"),
        /// How often logs are looked at.
        container_log_monitor_interval as "containerLogMonitorInterval": Duration
            = Duration::from_secs(10) => unset,
        /// What pods may not use.
        system_reserved as "systemReserved": BTreeMap<String, String> = BTreeMap::new() => unset
            @ flag("system-reserved", "AMOUNTS", "What pods may not use, as cpu=100m,memory=100Mi"),
        /// What pods may not use.
        kube_reserved as "kubeReserved": BTreeMap<String, String> = BTreeMap::new() => unset
            @ flag("kube-reserved", "AMOUNTS", "What pods may not use, as cpu=100m,memory=100Mi"),
        /// Sysctls that pods may set although they reach beyond them; `*` at the end stands for more.
        allowed_unsafe_sysctls as "allowedUnsafeSysctls": Vec<String> = Vec::new() => unset
            @ flag("allowed-unsafe-sysctls", "NAMES",
                "Sysctls that pods may set although they reach beyond them; * at the end \
                 stands for more").commas(),
        /// How long all pods may take to end when the agent is told to.
        shutdown_grace_period as "shutdownGracePeriod": Duration = Duration::ZERO => unset,
        /// How much of that is for critical pods, after all others.
        shutdown_grace_period_critical_pods as "shutdownGracePeriodCriticalPods": Duration
            = Duration::ZERO => unset,
        /// The same, by priority.
        shutdown_grace_period_by_pod_priority as "shutdownGracePeriodByPodPriority": Vec<PriorityGrace>
            = Vec::new() => unset,
        /// How long a failing container waits.
        crash_loop_back_off as "crashLoopBackOff": CrashLoopBackOff
            = CrashLoopBackOff::default() => unset,
        /// What is logged, and how.
        logging as "logging": Logging = Logging::default() => unset,
        /// Whether containers without a profile get the runtime's.
        seccomp_default as "seccompDefault": bool = false => unset
            @ flag("seccomp-default", "BOOL",
                "Give containers without a seccomp profile the runtime's"),
        /// The runtime.
        container_runtime_endpoint as "containerRuntimeEndpoint": String = String::new() => unset
            @ flag("container-runtime-endpoint", "ENDPOINT",
                "The runtime's CRI endpoint [default: unix:///run/orlop/orlop.sock]"),
        /// Its image service, if another.
        image_service_endpoint as "imageServiceEndpoint": String = String::new() => unset
            @ flag("image-service-endpoint", "ENDPOINT",
                "The endpoint of the image service [default: that of the runtime]"),
        /// Refuse to start on cgroup v1. Unlike the kubelet's, this is off until said otherwise.
        fail_cgroup_v1 as "failCgroupV1": bool = false => unset
            @ flag("fail-cgroupv1", "BOOL", "Refuse to start on cgroup v1 [default: false]"),
        /// What containers may swap.
        memory_swap as "memorySwap": MemorySwap = MemorySwap::default() => unset,
        /// Whether a process that is killed for want of memory leaves the rest of its container alone.
        single_process_oom_kill as "singleProcessOOMKill": bool = false => unset,
        /// Pods with a user namespace of their own.
        user_namespaces as "userNamespaces": UserNamespaces = UserNamespaces::default() => unset,
        /// What is not for everybody yet, or no more.
        feature_gates as "featureGates": BTreeMap<String, bool> = BTreeMap::new() => unset,
        /// Whose credentials are looked at again for an image that is here:
        /// `NeverVerifyPreloadedImages`, `NeverVerify`, `NeverVerifyAllowlistedImages`, `AlwaysVerify`.
        image_pull_credentials_verification_policy as "imagePullCredentialsVerificationPolicy": String
            = String::new() => unset,
        /// The images for which `NeverVerifyAllowlistedImages` asks nobody.
        preloaded_images_verification_allowlist as "preloadedImagesVerificationAllowlist": Vec<String>
            = Vec::new() => unset,
        /// From which part above its request on a container is slowed down (gate `MemoryQoS`).
        memory_throttling_factor as "memoryThrottlingFactor": Option<f64> = None => unset,
        /// `None` or `TieredReservation`: whether requested memory is kept (gate `MemoryQoS`).
        memory_reservation_policy as "memoryReservationPolicy": String = String::new() => unset,
    }
    no effect: "
        apiVersion str, kind str, tlsCurvePreferences [int],
        rotateCertificates bool, serverTLSBootstrap bool, eventRecordQPS int, eventBurst int,
        enableContentionProfiling bool, nodeStatusUpdateFrequency dur,
        nodeStatusReportFrequency dur, nodeLeaseDurationSeconds int, volumeStatsAggPeriod dur,
        kubeletCgroups str, systemCgroups str, cpuManagerPolicy str,
        cpuManagerPolicyOptions {str}, cpuManagerReconcilePeriod dur, memoryManagerPolicy str,
        topologyManagerPolicy str, topologyManagerScope str, topologyManagerPolicyOptions {str},
        qosReserved {str}, hairpinMode str, podCIDR str, runOnce bool, cpuCFSQuotaPeriod dur,
        nodeStatusMaxImages int, contentType str, kubeAPIQPS int, kubeAPIBurst int,
        enableControllerAttachDetach bool, protectKernelDefaults bool,
        makeIPTablesUtilChains bool, iptablesMasqueradeBit int, iptablesDropBit int,
        containerLogMaxWorkers int, configMapAndSecretChangeDetectionStrategy str,
        reservedSystemCPUs str, showHiddenMetricsForVersion str, systemReservedCgroup str,
        kubeReservedCgroup str, enforceNodeAllocatable [str], volumePluginDir str,
        providerID str, kernelMemcgNotification bool,
        enableSystemLogHandler bool, enableSystemLogQuery bool,
        reservedMemory [MemoryReservation], enableProfilingHandler bool,
        enableDebugFlagsHandler bool, registerWithTaints [Taint], registerNode bool,
        tracing TracingConfiguration, localStorageCapacityIsolation bool"
}

kubelet_config! {
    /// Who may come in.
    Authentication as "KubeletAuthentication" {
        /// By certificate.
        x509 as "x509": X509 = X509::default() => unset,
        /// By asking an API server, which is not possible here.
        webhook as "webhook": Webhook = Webhook::default() => unset,
        /// Without anything.
        anonymous as "anonymous": Anonymous = Anonymous::default() => unset,
    }
}

kubelet_config! {
    /// By certificate.
    X509 as "KubeletX509Authentication" {
        /// The authority of the clients' certificates.
        client_ca_file as "clientCAFile": String = String::new() => unset
            @ flag("client-ca-file", "FILE",
                "Let clients in that have a certificate of this authority"),
    }
}

kubelet_config! {
    /// By asking an API server.
    Webhook as "KubeletWebhookAuthentication" {
        /// Whether to.
        enabled as "enabled": bool = false => unset,
    }
    no effect: "cacheTTL dur"
}

kubelet_config! {
    /// Without anything.
    Anonymous as "KubeletAnonymousAuthentication" {
        /// Whether to.
        enabled as "enabled": bool = false => unset
            @ flag("anonymous-auth", "BOOL", "Let everyone in [default: false]"),
    }
}

kubelet_config! {
    /// What clients may do.
    Authorization as "KubeletAuthorization" {
        /// `AlwaysAllow`; `Webhook` is not possible here.
        mode as "mode": String = "AlwaysAllow".to_owned() => unset
            @ flag("authorization-mode", "MODE", "What clients may do: AlwaysAllow"),
    }
    no effect: "webhook KubeletWebhookAuthorization"
}

kubelet_config! {
    /// How long pods of at least some priority may take to end with the node.
    PriorityGrace as "ShutdownGracePeriodByPodPriority" {
        /// The least priority.
        priority as "priority": i32 = 0 => unset,
        /// How long.
        shutdown_grace_period_seconds as "shutdownGracePeriodSeconds": u64 = 0 => unset,
    }
}

kubelet_config! {
    /// How long a failing container waits.
    CrashLoopBackOff as "CrashLoopBackOffConfig" {
        /// At the most.
        max_container_restart_period as "maxContainerRestartPeriod": Option<Duration>
            = None => unset,
    }
}

kubelet_config! {
    /// What is logged, and how.
    Logging as "LoggingConfiguration" {
        /// `text` or `json`; by itself as it fits where the log goes. Flag: `--logging-format`.
        format as "format": String = String::new() => unset,
        /// How much: debug from 4, trace from 6. Flag: `--v`.
        verbosity as "verbosity": u32 = 0 => unset,
    }
    no effect: "flushFrequency any, vmodule [VModuleItem], options any"
}

kubelet_config! {
    /// What containers may swap.
    MemorySwap as "MemorySwapConfiguration" {
        /// `NoSwap` or `LimitedSwap`.
        swap_behavior as "swapBehavior": String = String::new() => unset,
    }
}

kubelet_config! {
    /// Pods with a user namespace of their own.
    UserNamespaces as "UserNamespaces" {
        /// How many ids each has.
        ids_per_pod as "idsPerPod": u32 = 65536 => unset,
    }
}

/// Objects in fields that have no effect.
const IDLE_OBJECTS: &str = "
KubeletWebhookAuthorization: cacheAuthorizedTTL dur, cacheUnauthorizedTTL dur
MemoryReservation: numaNode int, limits {qty}
Taint: key str, value str, effect str, timeAdded time
TracingConfiguration: endpoint str, samplingRatePerMillion int
VModuleItem: filePattern str, verbosity int
";

/// What is known of a configuration.
pub(super) static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let mut schema = Schema::read(&[IDLE_OBJECTS]);
    KubeletConfiguration::describe(&mut schema);
    schema
});

impl KubeletConfiguration {
    /// The flags that set a field.
    pub fn flags() -> Vec<Flag> {
        let mut flags = Vec::new();
        <Self as Setting>::flags(&mut flags);
        flags
    }

    /// Sets the field of a flag to what that was given.
    pub fn set_by_flag(&mut self, name: &str, given: &[String]) -> Result<(), String> {
        Setting::set_by_flag(self, name, given)
            .unwrap_or_else(|| Err(format!("no field has a flag --{name}")))
    }

    /// Whether a field has an effect here.
    pub(super) fn has_effect(field: &str) -> bool {
        Self::fields().iter().any(|known| known.name == field)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write;
    use std::path::{Path, PathBuf};

    use serde_json::Value;

    use super::super::setting::Field;
    use super::*;
    use crate::document::Type;

    fn top(path: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(path)
    }

    fn idle(object: &str, fields: &[Field]) -> Vec<&'static str> {
        let known = SCHEMA.object(object).unwrap().keys().copied();
        known
            .filter(|name| fields.iter().all(|field| field.name != *name))
            .filter(|name| !["apiVersion", "kind"].contains(name))
            .collect()
    }

    /// The rows of an object, and then of those in it.
    fn rows<T: Setting + Default + serde::Serialize>(out: &mut String, title: &str) {
        let Type::Object(object) = T::kind() else {
            panic!("{title} is no object");
        };
        let defaults = serde_json::to_value(T::default()).unwrap();
        let _ = writeln!(out, "\n## {title}\n");
        out.push_str("| field | type | default | what it does |\n|---|---|---|---|\n");
        for field in T::fields() {
            let kind = &SCHEMA.object(object).unwrap()[field.name];
            let default = match &defaults[field.name] {
                Value::Null | Value::Object(_) => String::new(),
                Value::String(text) if text.is_empty() => String::new(),
                Value::Array(list) if list.is_empty() => String::new(),
                Value::String(text) => format!("`{text}`"),
                other => format!("`{other}`"),
            };
            let doc: Vec<_> = field.doc.iter().map(|line| line.trim()).collect();
            let flag = field.flag.map(|flag| format!(" Flag: `--{flag}`."));
            let _ = writeln!(
                out,
                "| `{}` | {} | {default} | {}{} |",
                field.name,
                kind.what(),
                doc.join(" "),
                flag.unwrap_or_default()
            );
        }
        let idle = idle(object, &T::fields());
        if !idle.is_empty() {
            let _ = writeln!(out, "\nWithout effect: `{}`.", idle.join("`, `"));
        }
    }

    fn reference() -> String {
        let mut out = String::from(
            "# The kubelet's configuration\n\nWhat `orlop node --config` and `orlop up --node-config` take \
             of a `KubeletConfiguration`\n(`kubelet.config.k8s.io/v1beta1`) of Kubernetes 1.36. Flags \
             beat it. What is known and has no effect\nis named in the log where it is set; what is \
             not known is an error. This document is made from the\ntable of the fields.\n",
        );
        rows::<KubeletConfiguration>(&mut out, "`KubeletConfiguration`");
        rows::<Authentication>(&mut out, "`authentication`");
        rows::<X509>(&mut out, "`authentication.x509`");
        rows::<Webhook>(&mut out, "`authentication.webhook`");
        rows::<Anonymous>(&mut out, "`authentication.anonymous`");
        rows::<Authorization>(&mut out, "`authorization`");
        rows::<PriorityGrace>(&mut out, "`shutdownGracePeriodByPodPriority`");
        rows::<CrashLoopBackOff>(&mut out, "`crashLoopBackOff`");
        rows::<Logging>(&mut out, "`logging`");
        rows::<MemorySwap>(&mut out, "`memorySwap`");
        rows::<UserNamespaces>(&mut out, "`userNamespaces`");
        out
    }

    #[test]
    fn the_reference_of_the_kubelets_configuration_is_up_to_date() {
        let path = top("docs/kubelet-configuration.md");
        if std::env::var_os("ORLOP_BLESS").is_some() {
            std::fs::write(&path, reference()).unwrap();
        }
        assert_eq!(
            std::fs::read_to_string(&path).unwrap_or_default(),
            reference(),
            "run this test with ORLOP_BLESS=1 to write docs/kubelet-configuration.md anew"
        );
    }

    #[test]
    fn all_that_a_kubelet_knows_is_known() {
        assert!(SCHEMA.object("KubeletConfiguration").unwrap().len() >= 120);
        let named: BTreeSet<_> = KubeletConfiguration::fields()
            .iter()
            .map(|it| it.name)
            .collect();
        assert_eq!(
            named.len(),
            KubeletConfiguration::fields().len(),
            "a field stands twice"
        );
        for object in ["Taint", "KubeletX509Authentication", "VModuleItem"] {
            assert!(SCHEMA.object(object).is_some(), "{object}");
        }
    }

    /// Those whose default is told in words.
    const TOLD_IN_WORDS: [&str; 4] = [
        "container-runtime-endpoint",
        "image-service-endpoint",
        "tls-cert-file",
        "cgroup-root",
    ];

    #[test]
    fn the_help_of_a_flag_tells_the_default_of_its_field() {
        let mut compared = 0;
        for flag in KubeletConfiguration::flags() {
            let default = flag.help.split("[default: ").nth(1);
            let Some(default) = default.filter(|_| !TOLD_IN_WORDS.contains(&flag.name)) else {
                continue;
            };
            let given = [default.trim_end_matches(']').to_owned()];
            let mut configuration = KubeletConfiguration::default();
            configuration.set_by_flag(flag.name, &given).unwrap();
            assert_eq!(
                configuration,
                KubeletConfiguration::default(),
                "--{}",
                flag.name
            );
            compared += 1;
        }
        assert!(compared > 25, "{compared}");
    }

    #[test]
    fn a_flag_sets_its_field_and_says_what_it_cannot_take() {
        let mut configuration = KubeletConfiguration::default();
        let mut set = |name: &str, text: &str| configuration.set_by_flag(name, &[text.to_owned()]);
        set("anonymous-auth", "true").unwrap();
        set("eviction-minimum-reclaim", "imagefs.available=2Gi").unwrap();
        set("eviction-hard", "").unwrap();
        set("manifest-url-header", "X: y").unwrap();
        for (name, text, wrong) in [
            ("max-pods", "-1", "-1 is not in 0..=4294967295"),
            ("eviction-hard", "a=5", "`a=5` is not of the form key<value"),
            (
                "system-reserved",
                "cpu<1",
                "`cpu<1` is not of the form key=value",
            ),
            ("sync-frequency", "soon", "`soon` is no length of time"),
            ("nothing", "", "no field has a flag --nothing"),
        ] {
            let said = set(name, text).unwrap_err();
            assert!(said.starts_with(wrong), "{said}");
        }
        assert!(configuration.authentication.anonymous.enabled);
        assert_eq!(
            configuration.eviction_minimum_reclaim["imagefs.available"],
            "2Gi"
        );
        assert_eq!(configuration.eviction_hard, Some(BTreeMap::new()));
        assert_eq!(configuration.static_pod_url_header["X"], ["y"]);
    }

    /// A field that nobody reads would have an effect in the table alone.
    #[test]
    fn every_field_of_the_table_is_read_somewhere() {
        let table = std::fs::read_to_string(top("crates/agent/src/configuration/kubelet.rs"));
        let table = table.unwrap();
        let fields: Vec<_> = table
            .lines()
            .filter_map(|line| line.strip_prefix("        ")?.split_once(" as \""))
            .map(|(field, _)| format!(".{field}"))
            .collect();
        assert!(fields.len() > 70, "{}", fields.len());
        let mut code = String::new();
        let mut directories = vec![top("crates/agent/src"), top("crates/orlop/src/commands")];
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() && !path.ends_with("configuration") {
                    directories.push(path);
                } else if path.is_file() {
                    let text = std::fs::read_to_string(path).unwrap();
                    code.push_str(text.split("#[cfg(test)]").next().unwrap());
                }
            }
        }
        let is_read = |field: &String| {
            code.match_indices(field.as_str()).any(|(at, _)| {
                let next = code[at + field.len()..].chars().next();
                next.is_none_or(|next| !next.is_alphanumeric() && next != '_')
            })
        };
        let unread: Vec<_> = fields.iter().filter(|field| !is_read(field)).collect();
        assert!(unread.is_empty(), "{unread:?}");
    }
}
