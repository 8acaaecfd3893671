//! The kinds of objects that a node uses, with all their fields in Kubernetes 1.36.

use std::sync::LazyLock;

use super::schema::Schema;

/// The schema of pods, of workloads that create pods, and of objects that pods refer to.
pub(crate) static KINDS: LazyLock<Schema> =
    LazyLock::new(|| Schema::read(&[META, POD, CONTAINER, SECURITY, VOLUMES, MAKERS, VALUES]));

const META: &str = "
TypeMeta: apiVersion str, kind str
ObjectMeta: name str, generateName str, namespace str, selfLink str, uid str, resourceVersion str
  generation int, creationTimestamp time, deletionTimestamp time, deletionGracePeriodSeconds int
  labels {str}, annotations {str}, ownerReferences [OwnerReference], finalizers [str]
  managedFields any
OwnerReference: apiVersion str, kind str, name str, uid str, controller bool
  blockOwnerDeletion bool
ListMeta: selfLink str, resourceVersion str, continue str, remainingItemCount int
LocalObjectReference: name str
LabelSelector: matchLabels {str}, matchExpressions any
";

const POD: &str = "
Pod: apiVersion str, kind str, metadata ObjectMeta, spec PodSpec, status any
PodTemplateSpec: metadata ObjectMeta, spec PodSpec
PodSpec: volumes [Volume], initContainers [Container], containers [Container]
  ephemeralContainers [EphemeralContainer], restartPolicy str
  terminationGracePeriodSeconds int, activeDeadlineSeconds int, dnsPolicy str
  nodeSelector {str}, serviceAccountName str, serviceAccount str
  automountServiceAccountToken bool, nodeName str, hostNetwork bool, hostPID bool, hostIPC bool
  shareProcessNamespace bool, securityContext PodSecurityContext
  imagePullSecrets [LocalObjectReference], hostname str, subdomain str, affinity any
  schedulerName str, tolerations [Toleration], hostAliases [HostAlias], priorityClassName str
  priority int, dnsConfig PodDNSConfig, readinessGates [PodReadinessGate], runtimeClassName str
  enableServiceLinks bool, preemptionPolicy str, overhead {qty}
  topologySpreadConstraints any, setHostnameAsFQDN bool, os PodOS, hostUsers bool
  schedulingGates any, resourceClaims any, resources ResourceRequirements
  hostnameOverride str, workloadRef any, schedulingGroup any
Toleration: key str, operator str, value str, effect str, tolerationSeconds int
HostAlias: ip str, hostnames [str]
PodDNSConfig: nameservers [str], searches [str], options [PodDNSConfigOption]
PodDNSConfigOption: name str, value str
PodReadinessGate: conditionType str
PodOS: name str
";

const CONTAINER: &str = "
Container: name str, image str, command [str], args [str], workingDir str, ports [ContainerPort]
  envFrom [EnvFromSource], env [EnvVar], resources ResourceRequirements
  resizePolicy [ContainerResizePolicy], restartPolicy str
  restartPolicyRules [ContainerRestartRule], volumeMounts [VolumeMount]
  volumeDevices [VolumeDevice], livenessProbe Probe, readinessProbe Probe, startupProbe Probe
  lifecycle Lifecycle, terminationMessagePath str, terminationMessagePolicy str
  imagePullPolicy str, securityContext SecurityContext, stdin bool, stdinOnce bool, tty bool
EphemeralContainer: name str, image str, command [str], args [str], workingDir str
  ports [ContainerPort], envFrom [EnvFromSource], env [EnvVar], resources ResourceRequirements
  resizePolicy [ContainerResizePolicy], restartPolicy str
  restartPolicyRules [ContainerRestartRule], volumeMounts [VolumeMount]
  volumeDevices [VolumeDevice], livenessProbe Probe, readinessProbe Probe, startupProbe Probe
  lifecycle Lifecycle, terminationMessagePath str, terminationMessagePolicy str
  imagePullPolicy str, securityContext SecurityContext, stdin bool, stdinOnce bool, tty bool
  targetContainerName str
ContainerPort: name str, hostPort int, containerPort int, protocol str, hostIP str
EnvFromSource: prefix str, configMapRef OptionalReference, secretRef OptionalReference
OptionalReference: name str, optional bool
EnvVar: name str, value str, valueFrom EnvVarSource
EnvVarSource: fieldRef ObjectFieldSelector, resourceFieldRef ResourceFieldSelector
  configMapKeyRef KeySelector, secretKeyRef KeySelector, fileKeyRef FileKeySelector
ObjectFieldSelector: apiVersion str, fieldPath str
ResourceFieldSelector: containerName str, resource str, divisor qty
KeySelector: name str, key str, optional bool
FileKeySelector: volumeName str, path str, key str, optional bool
ResourceRequirements: limits {qty}, requests {qty}, claims [ResourceClaim]
ResourceClaim: name str, request str
ContainerResizePolicy: resourceName str, restartPolicy str
ContainerRestartRule: action str, exitCodes ContainerRestartRuleOnExitCodes
ContainerRestartRuleOnExitCodes: operator str, values [int]
VolumeMount: name str, readOnly bool, recursiveReadOnly str, mountPath str, subPath str
  mountPropagation str, subPathExpr str
VolumeDevice: name str, devicePath str
Probe: exec ExecAction, httpGet HTTPGetAction, tcpSocket TCPSocketAction, grpc GRPCAction
  initialDelaySeconds int, timeoutSeconds int, periodSeconds int, successThreshold int
  failureThreshold int, terminationGracePeriodSeconds int
Lifecycle: postStart LifecycleHandler, preStop LifecycleHandler, stopSignal str
LifecycleHandler: exec ExecAction, httpGet HTTPGetAction, tcpSocket TCPSocketAction
  sleep SleepAction
ExecAction: command [str]
HTTPGetAction: path str, port intstr, host str, scheme str, httpHeaders [HTTPHeader]
HTTPHeader: name str, value str
TCPSocketAction: port intstr, host str
GRPCAction: port int, service str
SleepAction: seconds int
";

const SECURITY: &str = "
PodSecurityContext: seLinuxOptions SELinuxOptions, windowsOptions any, runAsUser int
  runAsGroup int, runAsNonRoot bool, supplementalGroups [int], supplementalGroupsPolicy str
  fsGroup int, sysctls [Sysctl], fsGroupChangePolicy str, seccompProfile SeccompProfile
  appArmorProfile AppArmorProfile, seLinuxChangePolicy str
SecurityContext: capabilities Capabilities, privileged bool, seLinuxOptions SELinuxOptions
  windowsOptions any, runAsUser int, runAsGroup int, runAsNonRoot bool
  readOnlyRootFilesystem bool, allowPrivilegeEscalation bool, procMount str
  seccompProfile SeccompProfile, appArmorProfile AppArmorProfile
Capabilities: add [str], drop [str]
SELinuxOptions: user str, role str, type str, level str
SeccompProfile: type str, localhostProfile str
AppArmorProfile: type str, localhostProfile str
Sysctl: name str, value str
";

const VOLUMES: &str = "
Volume: name str, hostPath HostPathVolumeSource, emptyDir EmptyDirVolumeSource
  secret SecretVolumeSource, configMap ConfigMapVolumeSource
  downwardAPI DownwardAPIVolumeSource, projected ProjectedVolumeSource
  image ImageVolumeSource, persistentVolumeClaim any, ephemeral any, csi any, nfs any
  iscsi any, fc any, gcePersistentDisk any, awsElasticBlockStore any, gitRepo any
  glusterfs any, rbd any, flexVolume any, cinder any, cephfs any, flocker any
  azureFile any, azureDisk any, vsphereVolume any, quobyte any, photonPersistentDisk any
  portworxVolume any, scaleIO any, storageos any
HostPathVolumeSource: path str, type str
EmptyDirVolumeSource: medium str, sizeLimit qty
KeyToPath: key str, path str, mode int
SecretVolumeSource: secretName str, items [KeyToPath], defaultMode int, optional bool
ConfigMapVolumeSource: name str, items [KeyToPath], defaultMode int, optional bool
DownwardAPIVolumeSource: items [DownwardAPIVolumeFile], defaultMode int
DownwardAPIVolumeFile: path str, fieldRef ObjectFieldSelector
  resourceFieldRef ResourceFieldSelector, mode int
ProjectedVolumeSource: sources [VolumeProjection], defaultMode int
VolumeProjection: secret SecretProjection, downwardAPI DownwardAPIProjection
  configMap ConfigMapProjection, serviceAccountToken ServiceAccountTokenProjection
  clusterTrustBundle any, podCertificate any
SecretProjection: name str, items [KeyToPath], optional bool
ConfigMapProjection: name str, items [KeyToPath], optional bool
DownwardAPIProjection: items [DownwardAPIVolumeFile]
ServiceAccountTokenProjection: audience str, expirationSeconds int, path str
ImageVolumeSource: reference str, pullPolicy str
";

const MAKERS: &str = "
PodTemplate: apiVersion str, kind str, metadata ObjectMeta, template PodTemplateSpec
ReplicationController: apiVersion str, kind str, metadata ObjectMeta
  spec ReplicationControllerSpec, status any
ReplicationControllerSpec: replicas int, minReadySeconds int, selector {str}
  template PodTemplateSpec
ReplicaSet: apiVersion str, kind str, metadata ObjectMeta, spec ReplicaSetSpec, status any
ReplicaSetSpec: replicas int, minReadySeconds int, selector LabelSelector
  template PodTemplateSpec
Deployment: apiVersion str, kind str, metadata ObjectMeta, spec DeploymentSpec, status any
DeploymentSpec: replicas int, selector LabelSelector, template PodTemplateSpec, strategy any
  minReadySeconds int, revisionHistoryLimit int, paused bool, progressDeadlineSeconds int
DaemonSet: apiVersion str, kind str, metadata ObjectMeta, spec DaemonSetSpec, status any
DaemonSetSpec: selector LabelSelector, template PodTemplateSpec, updateStrategy any
  minReadySeconds int, revisionHistoryLimit int
StatefulSet: apiVersion str, kind str, metadata ObjectMeta, spec StatefulSetSpec, status any
StatefulSetSpec: replicas int, selector LabelSelector, template PodTemplateSpec
  volumeClaimTemplates any, serviceName str, podManagementPolicy str, updateStrategy any
  revisionHistoryLimit int, minReadySeconds int, persistentVolumeClaimRetentionPolicy any
  ordinals StatefulSetOrdinals
StatefulSetOrdinals: start int
Job: apiVersion str, kind str, metadata ObjectMeta, spec JobSpec, status any
JobSpec: parallelism int, completions int, activeDeadlineSeconds int, podFailurePolicy any
  successPolicy any, backoffLimit int, backoffLimitPerIndex int, maxFailedIndexes int
  selector LabelSelector, manualSelector bool, template PodTemplateSpec
  ttlSecondsAfterFinished int, completionMode str, suspend bool, podReplacementPolicy str
  managedBy str
";

const VALUES: &str = "
ConfigMap: apiVersion str, kind str, metadata ObjectMeta, immutable bool, data {str}
  binaryData {bytes}
Secret: apiVersion str, kind str, metadata ObjectMeta, immutable bool, data {bytes}
  stringData {str}, type str
RuntimeClass: apiVersion str, kind str, metadata ObjectMeta, handler str
  overhead RuntimeClassOverhead, scheduling RuntimeClassScheduling
RuntimeClassScheduling: nodeSelector {str}, tolerations [Toleration]
RuntimeClassOverhead: podFixed {qty}
";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::schema::Type;
    use super::*;

    /// A misspelled type in the table would accept any value.
    #[test]
    fn every_object_that_is_named_is_described() {
        let all = [META, POD, CONTAINER, SECURITY, VOLUMES, MAKERS, VALUES];
        let mut missing = BTreeSet::new();
        let mut objects = 0;
        for line in all.iter().flat_map(|table| table.lines()) {
            if let Some((name, _)) = line.split_once(':') {
                objects += 1;
                for kind in KINDS.object(name).unwrap().values() {
                    let mut kind = kind;
                    while let Type::List(inner) | Type::Map(inner) = kind {
                        kind = inner;
                    }
                    if let Type::Object(name) = kind
                        && KINDS.object(name).is_none()
                    {
                        missing.insert(*name);
                    }
                }
            }
        }
        assert_eq!(missing, BTreeSet::new());
        assert!(objects > 60, "{objects}");
    }
}
