//! The table of the kubelet's configuration, `KubeletConfiguration` of Kubernetes 1.36: every field
//! with its type, default, flag and effect.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::LazyLock;
use std::time::Duration;

use orlop_kubelet_rules::pod::Quantity;
use orlop_text::flag::{Flag, flag};

use super::setting::{Setting, kubelet_config, own_thresholds, thresholds};
use crate::document::Schema;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

kubelet_config! {
    /// The fields of a `KubeletConfiguration` that have an effect, under its names, each at the
    /// kubelet's default unless said otherwise.
    KubeletConfiguration as "KubeletConfiguration" {
        /// Whether the agent serves the kubelet API over HTTPS.
        enable_server as "enableServer": bool = true => unset
            @ flag("enable-server", "BOOL", "Serve the kubelet API over HTTPS [default: true]"),
        /// The directory or the file with the manifests of static pods.
        static_pod_path as "staticPodPath": String = String::new() => unset
            @ flag("pod-manifest-path", "PATH",
                "Read static pod manifests from a directory or a file; - is the standard input"),
        /// The directory of the pods' logs.
        pod_logs_dir as "podLogsDir": String = "/var/log/pods".to_owned() => unset
            @ flag("pod-logs-dir", "DIR",
                "Directory of the pods' logs [default: /var/log/pods]"),
        /// The longest time between two syncs of a running pod.
        sync_frequency as "syncFrequency": Duration = Duration::from_mins(1) => zero
            @ flag("sync-frequency", "TIME",
                "Longest time between two syncs of a running pod [default: 1m]"),
        /// The interval at which the agent reads the manifest files even if it noticed no change.
        file_check_frequency as "fileCheckFrequency": Duration = Duration::from_secs(20) => zero
            @ flag("file-check-frequency", "TIME",
                "Interval at which manifest files are read [default: 20s]"),
        /// The interval at which the agent requests the manifest URL.
        http_check_frequency as "httpCheckFrequency": Duration = Duration::from_secs(20) => zero
            @ flag("http-check-frequency", "TIME",
                "Interval at which the manifest URL is requested [default: 20s]"),
        /// The URL of manifests of static pods.
        static_pod_url as "staticPodURL": String = String::new() => unset
            @ flag("manifest-url", "URL", "Read static pod manifests from a URL"),
        /// The HTTP headers of requests to the manifest URL.
        static_pod_url_header as "staticPodURLHeader": BTreeMap<String, Vec<String>>
            = BTreeMap::new() => unset
            @ flag("manifest-url-header", "HEADER",
                "HTTP header for the manifest URL, as name:value; can be repeated"),
        /// The address that the servers listen on. Unlike the kubelet's, the default is a loopback
        /// address.
        address as "address": IpAddr = LOOPBACK => unset
            @ flag("address", "ADDRESS",
                "Address that the servers listen on [default: 127.0.0.1]"),
        /// The port of the HTTPS server.
        port as "port": u16 = 10250 => zero
            @ flag("port", "PORT", "Port of the HTTPS server [default: 10250]"),
        /// The port of the read-only server, which needs no credentials; 0 disables it.
        read_only_port as "readOnlyPort": u16 = 0 => unset
            @ flag("read-only-port", "PORT",
                "Port of the read-only server, which needs no credentials; 0 disables it \
                 [default: 0]"),
        /// The certificate file of the HTTPS server. If it is not set, the agent creates a
        /// self-signed certificate.
        tls_cert_file as "tlsCertFile": String = String::new() => unset
            @ flag("tls-cert-file", "FILE",
                "Certificate file of the HTTPS server [default: a self-signed certificate]"),
        /// The private key file of `tlsCertFile`.
        tls_private_key_file as "tlsPrivateKeyFile": String = String::new() => unset
            @ flag("tls-private-key-file", "FILE", "Private key file of --tls-cert-file"),
        /// The oldest TLS version that the HTTPS server accepts: `VersionTLS12` or `VersionTLS13`.
        tls_min_version as "tlsMinVersion": String = String::new() => unset
            @ flag("tls-min-version", "VERSION",
                "Oldest TLS version to accept: VersionTLS12 or VersionTLS13"),
        /// The TLS cipher suites that the HTTPS server accepts, by their IANA names.
        tls_cipher_suites as "tlsCipherSuites": Vec<String> = Vec::new() => unset
            @ flag("tls-cipher-suites", "NAMES",
                "TLS cipher suites to accept, separated by commas").commas(),
        /// The authentication of clients of the HTTPS server.
        authentication as "authentication": Authentication = Authentication::default() => unset,
        /// The permissions of authenticated clients.
        authorization as "authorization": Authorization = Authorization::default() => unset,
        /// The number of image pulls per second; 0 means no limit.
        registry_pull_qps as "registryPullQPS": u32 = 5 => unset
            @ flag("registry-qps", "N", "Image pulls per second; 0 means no limit [default: 5]"),
        /// The number of image pulls that may exceed `registryPullQPS` in a burst.
        registry_burst as "registryBurst": u32 = 10 => zero
            @ flag("registry-burst", "N",
                "Image pulls that may exceed --registry-qps in a burst [default: 10]"),
        /// Whether the HTTPS server offers logs, exec, attach and port-forward.
        enable_debugging_handlers as "enableDebuggingHandlers": bool = true => unset
            @ flag("enable-debugging-handlers", "BOOL",
                "Serve logs, exec, attach and port-forward [default: true]"),
        /// The port of the `/healthz` server, which needs no credentials; 0 disables it.
        healthz_port as "healthzPort": u16 = 10248 => unset
            @ flag("healthz-port", "PORT",
                "Port of the /healthz server; 0 disables it [default: 10248]"),
        /// The address that the `/healthz` server listens on.
        healthz_bind_address as "healthzBindAddress": IpAddr = LOOPBACK => unset
            @ flag("healthz-bind-address", "ADDRESS",
                "Address that the /healthz server listens on [default: 127.0.0.1]"),
        /// The `oom_score_adj` of the agent itself.
        oom_score_adj as "oomScoreAdj": i32 = -999 => unset
            @ flag("oom-score-adj", "N", "oom_score_adj of the agent itself [default: -999]"),
        /// The DNS domain of the cluster's services.
        cluster_domain as "clusterDomain": String = String::new() => unset
            @ flag("cluster-domain", "DOMAIN", "DNS domain of the cluster's services"),
        /// The DNS servers of pods.
        cluster_dns as "clusterDNS": Vec<IpAddr> = Vec::new() => unset
            @ flag("cluster-dns", "ADDRESS", "DNS servers of pods, separated by commas").commas(),
        /// The time without traffic after which the agent closes an exec, attach or port-forward
        /// session.
        streaming_connection_idle_timeout as "streamingConnectionIdleTimeout": Duration
            = Duration::from_hours(4) => zero
            @ flag("streaming-connection-idle-timeout", "TIME",
                "Time without traffic after which an exec, attach or port-forward session is \
                 closed [default: 4h]"),
        /// The shortest time that the agent keeps an unused image.
        image_minimum_gc_age as "imageMinimumGCAge": Duration = Duration::from_mins(2) => zero
            @ flag("minimum-image-ttl-duration", "TIME",
                "Shortest time that an unused image is kept [default: 2m]"),
        /// The longest time that the agent keeps an unused image; 0 means no limit.
        image_maximum_gc_age as "imageMaximumGCAge": Duration = Duration::ZERO => unset,
        /// The disk usage in percent above which the agent removes unused images.
        image_gc_high_threshold_percent as "imageGCHighThresholdPercent": u8 = 85 => unset
            @ flag("image-gc-high-threshold", "PERCENT",
                "Remove unused images above this disk usage in percent [default: 85]"),
        /// The disk usage in percent at which the agent stops removing unused images.
        image_gc_low_threshold_percent as "imageGCLowThresholdPercent": u8 = 80 => unset
            @ flag("image-gc-low-threshold", "PERCENT",
                "Stop removing unused images at this disk usage in percent [default: 80]"),
        /// The parent cgroup of all pods' cgroups.
        cgroup_root as "cgroupRoot": String = String::new() => unset
            @ flag("cgroup-root", "CGROUP", "Parent cgroup of all pods' cgroups [default: /]"),
        /// Whether each QoS class has a parent cgroup for its pods.
        cgroups_per_qos as "cgroupsPerQOS": bool = true => unset
            @ flag("cgroups-per-qos", "BOOL",
                "Create a parent cgroup for the pods of each QoS class [default: true]"),
        /// The cgroup driver: `cgroupfs` or `systemd`.
        cgroup_driver as "cgroupDriver": String = "cgroupfs".to_owned() => unset
            @ flag("cgroup-driver", "NAME",
                "Cgroup driver: cgroupfs or systemd [default: cgroupfs]"),
        /// The timeout of requests to the container runtime.
        runtime_request_timeout as "runtimeRequestTimeout": Duration
            = Duration::from_mins(2) => zero
            @ flag("runtime-request-timeout", "TIME",
                "Timeout of requests to the container runtime [default: 2m]"),
        /// The largest number of pods on the node.
        max_pods as "maxPods": u32 = 110 => zero
            @ flag("max-pods", "N", "Largest number of pods on the node [default: 110]"),
        /// The largest number of processes in a pod; a negative number means no limit.
        pod_pids_limit as "podPidsLimit": i64 = -1 => unset
            @ flag("pod-max-pids", "N",
                "Largest number of processes in a pod; -1 means no limit"),
        /// The resolver configuration that pods inherit their DNS settings from.
        resolv_conf as "resolvConf": String = "/etc/resolv.conf".to_owned() => unset
            @ flag("resolv-conf", "FILE",
                "Resolver configuration for pods [default: /etc/resolv.conf]"),
        /// Whether the agent enforces CPU limits of containers with CFS quotas.
        cpu_cfs_quota as "cpuCFSQuota": bool = true => unset
            @ flag("cpu-cfs-quota", "BOOL",
                "Enforce CPU limits of containers with CFS quotas [default: true]"),
        /// The largest number of files that the agent may have open.
        max_open_files as "maxOpenFiles": u64 = 1_000_000 => zero
            @ flag("max-open-files", "N",
                "Largest number of files that the agent may have open [default: 1000000]"),
        /// Whether the agent pulls one image at a time. The default is true, unless
        /// `maxParallelImagePulls` is 2 or more.
        serialize_image_pulls as "serializeImagePulls": Option<bool> = None => unset
            @ flag("serialize-image-pulls", "BOOL", "Pull one image at a time"),
        /// The largest number of image pulls at the same time.
        max_parallel_image_pulls as "maxParallelImagePulls": Option<usize> = None => unset,
        /// The thresholds at which the agent evicts pods immediately, by eviction signal.
        eviction_hard as "evictionHard": Option<BTreeMap<String, String>> = None => unset
            @ flag("eviction-hard", "THRESHOLDS",
                "Thresholds that evict pods immediately, such as \
                 memory.available<100Mi,nodefs.available<10%; an empty value disables them"); own_thresholds,
        /// The thresholds at which the agent evicts pods after a grace period, by eviction signal.
        eviction_soft as "evictionSoft": BTreeMap<String, String> = BTreeMap::new() => unset
            @ flag("eviction-soft", "THRESHOLDS",
                "Thresholds that evict pods after a grace period"); thresholds,
        /// The grace periods of `evictionSoft`, by eviction signal.
        eviction_soft_grace_period as "evictionSoftGracePeriod": BTreeMap<String, String>
            = BTreeMap::new() => unset
            @ flag("eviction-soft-grace-period", "TIMES",
                "Grace periods of --eviction-soft, such as memory.available=30s"),
        /// The time that the node keeps a pressure condition after the pressure has ended.
        eviction_pressure_transition_period as "evictionPressureTransitionPeriod": Duration
            = Duration::from_mins(5) => zero
            @ flag("eviction-pressure-transition-period", "TIME",
                "Time to keep a pressure condition after the pressure has ended [default: 5m]"),
        /// The longest termination grace period, in seconds, of pods that a soft threshold evicts.
        eviction_max_pod_grace_period as "evictionMaxPodGracePeriod": i64 = 0 => unset
            @ flag("eviction-max-pod-grace-period", "SECONDS",
                "Longest termination grace period, in seconds, of pods that a soft threshold \
                 evicts [default: 0]"),
        /// The amount that the agent reclaims beyond a threshold, by eviction signal.
        eviction_minimum_reclaim as "evictionMinimumReclaim": BTreeMap<String, String>
            = BTreeMap::new() => unset
            @ flag("eviction-minimum-reclaim", "LIST",
                "Amount to reclaim beyond a threshold, such as imagefs.available=2Gi"),
        /// Whether eviction signals that are not in `evictionHard` keep their defaults.
        merge_default_eviction_settings as "mergeDefaultEvictionSettings": bool = false => unset,
        /// The largest number of pods for each CPU core; 0 means no limit.
        pods_per_core as "podsPerCore": u32 = 0 => unset
            @ flag("pods-per-core", "N",
                "Largest number of pods for each CPU core; 0 means no limit [default: 0]"),
        /// Whether the agent refuses to start if swap is enabled on the node. Unlike the kubelet's,
        /// the default is false.
        fail_swap_on as "failSwapOn": bool = false => unset
            @ flag("fail-swap-on", "BOOL",
                "Refuse to start if swap is enabled on the node [default: false]"),
        /// The size above which the agent rotates a container log.
        container_log_max_size as "containerLogMaxSize": Quantity
            = Quantity::from_bytes(10 << 20) => unset
            @ flag("container-log-max-size", "SIZE",
                "Size above which a container log is rotated [default: 10Mi]"),
        /// The largest number of log files of a container.
        container_log_max_files as "containerLogMaxFiles": u32 = 5 => unset
            @ flag("container-log-max-files", "N",
                "Largest number of log files of a container [default: 5]"),
        /// The interval at which the agent checks the sizes of container logs.
        container_log_monitor_interval as "containerLogMonitorInterval": Duration
            = Duration::from_secs(10) => unset,
        /// The resources that are reserved for the system. Pods cannot use them.
        system_reserved as "systemReserved": BTreeMap<String, String> = BTreeMap::new() => unset
            @ flag("system-reserved", "AMOUNTS",
                "Resources reserved for the system, such as cpu=100m,memory=100Mi"),
        /// The resources that are reserved for Kubernetes daemons. Pods cannot use them.
        kube_reserved as "kubeReserved": BTreeMap<String, String> = BTreeMap::new() => unset
            @ flag("kube-reserved", "AMOUNTS",
                "Resources reserved for Kubernetes daemons, such as cpu=100m,memory=100Mi"),
        /// The unsafe sysctls that pods may set. A name may end with `*`, which matches every
        /// suffix.
        allowed_unsafe_sysctls as "allowedUnsafeSysctls": Vec<String> = Vec::new() => unset
            @ flag("allowed-unsafe-sysctls", "NAMES",
                "Unsafe sysctls that pods may set; a * at the end matches every suffix").commas(),
        /// The time that all pods have to stop when the agent shuts down.
        shutdown_grace_period as "shutdownGracePeriod": Duration = Duration::ZERO => unset,
        /// The part of `shutdownGracePeriod` that is reserved for critical pods, which stop last.
        shutdown_grace_period_critical_pods as "shutdownGracePeriodCriticalPods": Duration
            = Duration::ZERO => unset,
        /// The shutdown grace periods by pod priority.
        shutdown_grace_period_by_pod_priority as "shutdownGracePeriodByPodPriority": Vec<PriorityGrace>
            = Vec::new() => unset,
        /// The restart delay of containers that fail.
        crash_loop_back_off as "crashLoopBackOff": CrashLoopBackOff
            = CrashLoopBackOff::default() => unset,
        /// The format and the verbosity of the log.
        logging as "logging": Logging = Logging::default() => unset,
        /// Whether containers without a seccomp profile get the runtime's default profile.
        seccomp_default as "seccompDefault": bool = false => unset
            @ flag("seccomp-default", "BOOL",
                "Use the runtime's default seccomp profile for containers without one"),
        /// The CRI endpoint of the container runtime.
        container_runtime_endpoint as "containerRuntimeEndpoint": String = String::new() => unset
            @ flag("container-runtime-endpoint", "ENDPOINT",
                "CRI endpoint of the container runtime [default: unix:///run/orlop/orlop.sock]"),
        /// The CRI endpoint of the image service, if it is not the runtime's.
        image_service_endpoint as "imageServiceEndpoint": String = String::new() => unset
            @ flag("image-service-endpoint", "ENDPOINT",
                "CRI endpoint of the image service [default: the runtime's endpoint]"),
        /// Whether the agent refuses to start on cgroup v1. Unlike the kubelet's, the default is
        /// false.
        fail_cgroup_v1 as "failCgroupV1": bool = false => unset
            @ flag("fail-cgroupv1", "BOOL", "Refuse to start on cgroup v1 [default: false]"),
        /// The use of swap by containers.
        memory_swap as "memorySwap": MemorySwap = MemorySwap::default() => unset,
        /// Whether the kernel kills only a single process of a container that is out of memory.
        single_process_oom_kill as "singleProcessOOMKill": bool = false => unset,
        /// The user namespaces of pods.
        user_namespaces as "userNamespaces": UserNamespaces = UserNamespaces::default() => unset,
        /// The feature gates of Kubernetes, by name.
        feature_gates as "featureGates": BTreeMap<String, bool> = BTreeMap::new() => unset,
        /// For which images on the node a pod must prove its pull credentials:
        /// `NeverVerifyPreloadedImages`, `NeverVerify`, `NeverVerifyAllowlistedImages` or
        /// `AlwaysVerify`.
        image_pull_credentials_verification_policy as "imagePullCredentialsVerificationPolicy": String
            = String::new() => unset,
        /// The images that `NeverVerifyAllowlistedImages` exempts.
        preloaded_images_verification_allowlist as "preloadedImagesVerificationAllowlist": Vec<String>
            = Vec::new() => unset,
        /// The share of the memory between a container's request and limit above which the kernel
        /// throttles the container (gate `MemoryQoS`).
        memory_throttling_factor as "memoryThrottlingFactor": Option<f64> = None => unset,
        /// `None` or `TieredReservation`: whether the kernel protects requested memory (gate
        /// `MemoryQoS`).
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
    /// The authentication of clients of the HTTPS server.
    Authentication as "KubeletAuthentication" {
        /// Authentication with client certificates.
        x509 as "x509": X509 = X509::default() => unset,
        /// Authentication by an API server, which the agent does not support.
        webhook as "webhook": Webhook = Webhook::default() => unset,
        /// Access without credentials.
        anonymous as "anonymous": Anonymous = Anonymous::default() => unset,
    }
}

kubelet_config! {
    /// Authentication with client certificates.
    X509 as "KubeletX509Authentication" {
        /// The file of the authorities that sign client certificates.
        client_ca_file as "clientCAFile": String = String::new() => unset
            @ flag("client-ca-file", "FILE",
                "Accept clients with a certificate signed by an authority in this file"),
    }
}

kubelet_config! {
    /// Authentication by an API server.
    Webhook as "KubeletWebhookAuthentication" {
        /// Whether an API server authenticates clients. It must be false.
        enabled as "enabled": bool = false => unset,
    }
    no effect: "cacheTTL dur"
}

kubelet_config! {
    /// Access without credentials.
    Anonymous as "KubeletAnonymousAuthentication" {
        /// Whether clients without credentials have access.
        enabled as "enabled": bool = false => unset
            @ flag("anonymous-auth", "BOOL",
                "Allow clients without credentials [default: false]"),
    }
}

kubelet_config! {
    /// The permissions of authenticated clients.
    Authorization as "KubeletAuthorization" {
        /// The authorization mode. It must be `AlwaysAllow`; the agent does not support `Webhook`.
        mode as "mode": String = "AlwaysAllow".to_owned() => unset
            @ flag("authorization-mode", "MODE",
                "Permissions of authenticated clients: AlwaysAllow"),
    }
    no effect: "webhook KubeletWebhookAuthorization"
}

kubelet_config! {
    /// The shutdown grace period of pods whose priority is at least a given value.
    PriorityGrace as "ShutdownGracePeriodByPodPriority" {
        /// The lowest pod priority that the grace period applies to.
        priority as "priority": i32 = 0 => unset,
        /// The grace period in seconds.
        shutdown_grace_period_seconds as "shutdownGracePeriodSeconds": u64 = 0 => unset,
    }
}

kubelet_config! {
    /// The restart delay of containers that fail.
    CrashLoopBackOff as "CrashLoopBackOffConfig" {
        /// The longest restart delay.
        max_container_restart_period as "maxContainerRestartPeriod": Option<Duration>
            = None => unset,
    }
}

kubelet_config! {
    /// The format and the verbosity of the log.
    Logging as "LoggingConfiguration" {
        /// `text` or `json`. If it is not set, the format depends on where the log goes. Flag:
        /// `--logging-format`.
        format as "format": String = String::new() => unset,
        /// The verbosity: debug messages from 4, trace messages from 6. Flag: `--v`.
        verbosity as "verbosity": u32 = 0 => unset,
    }
    no effect: "flushFrequency any, vmodule [VModuleItem], options any"
}

kubelet_config! {
    /// The use of swap by containers.
    MemorySwap as "MemorySwapConfiguration" {
        /// Whether containers may swap: `NoSwap` or `LimitedSwap`.
        swap_behavior as "swapBehavior": String = String::new() => unset,
    }
}

kubelet_config! {
    /// The user namespaces of pods.
    UserNamespaces as "UserNamespaces" {
        /// The number of IDs of each pod.
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

/// The schema of a configuration.
pub(super) static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let mut schema = Schema::read(&[IDLE_OBJECTS]);
    KubeletConfiguration::describe(&mut schema);
    schema
});

impl KubeletConfiguration {
    /// Lists the flags that set a field.
    pub fn flags() -> Vec<Flag> {
        let mut flags = Vec::new();
        <Self as Setting>::flags(&mut flags);
        flags
    }

    /// Sets a field from the values of its flag.
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
            .join("../../..")
            .join(path)
    }

    fn idle(object: &str, fields: &[Field]) -> Vec<&'static str> {
        let known = SCHEMA.object(object).unwrap().keys().copied();
        known
            .filter(|name| fields.iter().all(|field| field.name != *name))
            .filter(|name| !["apiVersion", "kind"].contains(name))
            .collect()
    }

    /// Writes the rows of an object, then those of its nested objects.
    fn rows<T: Setting + Default + serde::Serialize>(out: &mut String, title: &str) {
        let Type::Object(object) = T::kind() else {
            panic!("{title} is no object");
        };
        let defaults = serde_json::to_value(T::default()).unwrap();
        let _ = writeln!(out, "\n## {title}\n");
        out.push_str("| field | type | default | description |\n|---|---|---|---|\n");
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
            let _ = writeln!(out, "\nFields without an effect: `{}`.", idle.join("`, `"));
        }
    }

    fn reference() -> String {
        let mut out = String::from(
            "# Kubelet configuration\n\nFields of a `KubeletConfiguration` (`kubelet.config.k8s.io/v1beta1`) of Kubernetes 1.36 that\n\
             `orlop node --config` and `orlop up --node-config` support.\n\n\
             - A flag takes precedence over its field.\n\
             - A known field without an effect is allowed; the log lists it.\n\
             - An unknown field is an error.\n\n\
             This page is generated from the table of the fields in the code.\n",
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
        let path = top("docs/reference/kubelet-configuration.md");
        if std::env::var_os("ORLOP_BLESS").is_some() {
            std::fs::write(&path, reference()).unwrap();
        }
        assert_eq!(
            std::fs::read_to_string(&path).unwrap_or_default(),
            reference(),
            "run this test with ORLOP_BLESS=1 to write docs/reference/kubelet-configuration.md again"
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

    /// Flags whose default is described in words.
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
            ("max-pods", "-1", "-1 is not between 0 and 4294967295"),
            ("eviction-hard", "a=5", "`a=5` is not of the form key<value"),
            (
                "system-reserved",
                "cpu<1",
                "`cpu<1` is not of the form key=value",
            ),
            ("sync-frequency", "soon", "`soon` is not a duration"),
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

    /// Otherwise a field could claim an effect in the table that it does not have.
    #[test]
    fn every_field_of_the_table_is_read_somewhere() {
        let table = std::fs::read_to_string(top("crates/node/agent/src/configuration/kubelet.rs"));
        let table = table.unwrap();
        let fields: Vec<_> = table
            .lines()
            .filter_map(|line| line.strip_prefix("        ")?.split_once(" as \""))
            .map(|(field, _)| format!(".{field}"))
            .collect();
        assert!(fields.len() > 70, "{}", fields.len());
        let mut code = String::new();
        let mut directories = vec![
            top("crates/node/agent/src"),
            top("crates/orlop/src/commands"),
        ];
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
