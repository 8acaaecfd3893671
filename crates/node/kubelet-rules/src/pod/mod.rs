//! The parts of a Kubernetes Pod that a node uses, with the names of Kubernetes.
//!
//! Fields that are missing here are ignored; the code that loads manifests warns about them.

mod container;
mod lifecycle;
mod metadata;
mod network;
mod nullable;
mod policy;
mod resources;
mod security;
mod spec;
mod volume;

pub use container::{Container, ContainerPort, EnvVar, EphemeralContainer, VolumeMount};
pub use lifecycle::{
    ExecAction, GrpcAction, HttpGetAction, HttpHeader, Lifecycle, LifecycleHandler, Port, Probe,
    SleepAction, TcpSocketAction,
};
pub use metadata::ObjectMeta;
pub use network::{DnsOption, DnsPolicy, HostAlias, PodDns, PullSecret};
pub use orlop_text::quantity::{Quantity, QuantityError};
pub use policy::{
    ContainerRestartPolicy, ExitCodeOperator, ExitCodes, PullPolicy, ResizePolicy,
    ResizeRestartPolicy, RestartPolicy, RestartRule, RestartRuleAction, TerminationMessagePolicy,
};
pub use resources::{ResourceList, Resources};
pub use security::{
    AppArmorProfile, Capabilities, ContainerSecurityContext, GroupPolicy, PodSecurityContext,
    ProfileKind, SeLinuxOptions, SeccompProfile, Sysctl,
};
pub use spec::{Pod, PodSpec};
pub use volume::{
    ConfigMapVolume, DownwardFile, DownwardVolume, EmptyDir, EnvFrom, EnvSource, FieldRef,
    FileKeyRef, HostPath, ImageVolume, KeyRef, KeyToPath, ObjectRef, ProjectedVolume, Projection,
    ResourceFieldRef, SecretVolume, Volume,
};
