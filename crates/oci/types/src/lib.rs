//! The OCI runtime specification as slim serde types: `config.json` and the `features` document.
//!
//! The types contain only what Linux containers use. Every field is public, empty fields are omitted from the JSON, and
//! unknown fields are ignored when a document is read.

mod device;
mod features;
mod linux;
mod process;
mod resources;
mod seccomp;
mod spec;

pub use device::{Device, DeviceKind};
pub use features::{
    Availability, CgroupFeatures, Features, IdmapFeature, IntelRdtFeatures, LinuxFeatures,
    MountExtensions, SeccompFeatures,
};
pub use linux::{
    IdMapping, IntelRdt, Linux, MemoryPolicy, Namespace, NamespaceKind, NetDevice, Personality,
    TimeOffset,
};
pub use process::{
    CAPABILITIES, Capabilities, ConsoleSize, CpuAffinity, IoPriority, Process, Rlimit, Scheduler,
    User,
};
pub use resources::{
    BlockIo, BlockWeight, Cpu, DeviceRule, HugepageLimit, InterfacePriority, Memory, NetworkClass,
    Pids, Rdma, Resources, Throttle,
};
pub use seccomp::{Profile, Seccomp, SeccompAction, SeccompArg, SeccompOperator, SeccompRule};
pub use spec::{Hook, Hooks, Mount, Root, Spec};
