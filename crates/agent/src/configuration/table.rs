//! What Kubernetes 1.36 knows of `KubeletConfiguration`, and what of it has an effect here.

use std::sync::LazyLock;

use crate::document::Schema;

/// The fields.
pub(super) static CONFIGURATION: LazyLock<Schema> = LazyLock::new(|| Schema::read(&[TABLE]));

const TABLE: &str = "
KubeletConfiguration: apiVersion str, kind str, enableServer bool, staticPodPath str
  podLogsDir str, syncFrequency dur, fileCheckFrequency dur, httpCheckFrequency dur
  staticPodURL str, staticPodURLHeader {[str]}, address str, port int, readOnlyPort int
  tlsCertFile str, tlsPrivateKeyFile str, tlsCipherSuites [str], tlsCurvePreferences [int]
  tlsMinVersion str, rotateCertificates bool, serverTLSBootstrap bool
  authentication KubeletAuthentication, authorization KubeletAuthorization
  registryPullQPS int, registryBurst int, imagePullCredentialsVerificationPolicy str
  preloadedImagesVerificationAllowlist [str], eventRecordQPS int, eventBurst int
  enableDebuggingHandlers bool, enableContentionProfiling bool, healthzPort int
  healthzBindAddress str, oomScoreAdj int, clusterDomain str, clusterDNS [str]
  streamingConnectionIdleTimeout dur, nodeStatusUpdateFrequency dur
  nodeStatusReportFrequency dur, nodeLeaseDurationSeconds int, imageMinimumGCAge dur
  imageMaximumGCAge dur, imageGCHighThresholdPercent int, imageGCLowThresholdPercent int
  volumeStatsAggPeriod dur, kubeletCgroups str, systemCgroups str, cgroupRoot str
  cgroupsPerQOS bool, cgroupDriver str, cpuManagerPolicy str, singleProcessOOMKill bool
  cpuManagerPolicyOptions {str}, cpuManagerReconcilePeriod dur, memoryManagerPolicy str
  topologyManagerPolicy str, topologyManagerScope str, topologyManagerPolicyOptions {str}
  qosReserved {str}, runtimeRequestTimeout dur, hairpinMode str, maxPods int, podCIDR str
  podPidsLimit int, resolvConf str, runOnce bool, cpuCFSQuota bool, cpuCFSQuotaPeriod dur
  nodeStatusMaxImages int, maxOpenFiles int, contentType str, kubeAPIQPS int
  kubeAPIBurst int, serializeImagePulls bool, maxParallelImagePulls int
  evictionHard {str}, evictionSoft {str}, evictionSoftGracePeriod {str}
  evictionPressureTransitionPeriod dur, evictionMaxPodGracePeriod int
  evictionMinimumReclaim {str}, mergeDefaultEvictionSettings bool, podsPerCore int
  enableControllerAttachDetach bool, protectKernelDefaults bool, makeIPTablesUtilChains bool
  iptablesMasqueradeBit int, iptablesDropBit int, featureGates {bool}, failSwapOn bool
  memorySwap MemorySwapConfiguration, containerLogMaxSize qty, containerLogMaxFiles int
  containerLogMaxWorkers int, containerLogMonitorInterval dur
  configMapAndSecretChangeDetectionStrategy str, systemReserved {str}, kubeReserved {str}
  reservedSystemCPUs str, showHiddenMetricsForVersion str, systemReservedCgroup str
  kubeReservedCgroup str, enforceNodeAllocatable [str], allowedUnsafeSysctls [str]
  volumePluginDir str, providerID str, kernelMemcgNotification bool
  logging LoggingConfiguration, enableSystemLogHandler bool, enableSystemLogQuery bool
  shutdownGracePeriod dur, shutdownGracePeriodCriticalPods dur
  shutdownGracePeriodByPodPriority [ShutdownGracePeriodByPodPriority]
  crashLoopBackOff CrashLoopBackOffConfig, reservedMemory [MemoryReservation]
  enableProfilingHandler bool, enableDebugFlagsHandler bool, seccompDefault bool
  memoryThrottlingFactor num, memoryReservationPolicy str, registerWithTaints [Taint]
  registerNode bool, tracing TracingConfiguration, localStorageCapacityIsolation bool
  containerRuntimeEndpoint str, imageServiceEndpoint str, failCgroupV1 bool
  userNamespaces UserNamespaces
KubeletAuthentication: x509 KubeletX509Authentication, webhook KubeletWebhookAuthentication
  anonymous KubeletAnonymousAuthentication
KubeletX509Authentication: clientCAFile str
KubeletWebhookAuthentication: enabled bool, cacheTTL dur
KubeletAnonymousAuthentication: enabled bool
KubeletAuthorization: mode str, webhook KubeletWebhookAuthorization
KubeletWebhookAuthorization: cacheAuthorizedTTL dur, cacheUnauthorizedTTL dur
MemorySwapConfiguration: swapBehavior str
CrashLoopBackOffConfig: maxContainerRestartPeriod dur
ShutdownGracePeriodByPodPriority: priority int, shutdownGracePeriodSeconds int
MemoryReservation: numaNode int, limits {qty}
Taint: key str, value str, effect str, timeAdded time
TracingConfiguration: endpoint str, samplingRatePerMillion int
UserNamespaces: idsPerPod int
LoggingConfiguration: format str, flushFrequency any, verbosity int
  vmodule [VModuleItem], options any
VModuleItem: filePattern str, verbosity int
";

/// The fields that have an effect here. All others are read, and named in the log if they are set.
pub(super) const WITH_EFFECT: &[&str] = &[
    "apiVersion",
    "kind",
    "enableServer",
    "staticPodPath",
    "podLogsDir",
    "syncFrequency",
    "fileCheckFrequency",
    "httpCheckFrequency",
    "staticPodURL",
    "staticPodURLHeader",
    "address",
    "port",
    "readOnlyPort",
    "tlsCertFile",
    "tlsPrivateKeyFile",
    "tlsMinVersion",
    "authentication",
    "authorization",
    "registryPullQPS",
    "registryBurst",
    "enableDebuggingHandlers",
    "healthzPort",
    "healthzBindAddress",
    "oomScoreAdj",
    "clusterDomain",
    "clusterDNS",
    "streamingConnectionIdleTimeout",
    "imageMinimumGCAge",
    "imageMaximumGCAge",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "cgroupRoot",
    "cgroupsPerQOS",
    "cgroupDriver",
    "runtimeRequestTimeout",
    "maxPods",
    "podPidsLimit",
    "resolvConf",
    "cpuCFSQuota",
    "maxOpenFiles",
    "serializeImagePulls",
    "maxParallelImagePulls",
    "evictionHard",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "evictionPressureTransitionPeriod",
    "evictionMaxPodGracePeriod",
    "evictionMinimumReclaim",
    "mergeDefaultEvictionSettings",
    "podsPerCore",
    "failSwapOn",
    "containerLogMaxSize",
    "containerLogMaxFiles",
    "containerLogMonitorInterval",
    "systemReserved",
    "kubeReserved",
    "allowedUnsafeSysctls",
    "shutdownGracePeriod",
    "shutdownGracePeriodCriticalPods",
    "shutdownGracePeriodByPodPriority",
    "crashLoopBackOff",
    "seccompDefault",
    "containerRuntimeEndpoint",
    "imageServiceEndpoint",
    "failCgroupV1",
    "userNamespaces",
    "memorySwap",
    "singleProcessOOMKill",
    "featureGates",
    "imagePullCredentialsVerificationPolicy",
    "preloadedImagesVerificationAllowlist",
    "memoryThrottlingFactor",
    "memoryReservationPolicy",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_an_effect_is_known() {
        let fields = CONFIGURATION.object("KubeletConfiguration").unwrap();
        assert!(fields.len() >= 120, "{}", fields.len());
        for field in WITH_EFFECT {
            assert!(fields.contains_key(field), "{field}");
        }
    }
}
