//! What a kubelet decides, each from plain data.
//!
//! Nothing here talks to a runtime, a disk, a network or a clock: what is known is passed in, what
//! follows is returned, so that every rule stands in a table of its tests. `clippy.toml` refuses
//! the rest. What the rules say is carried out by `orlop-kuberuntime`.
//!
//! | module | what it decides | in the kubelet |
//! |---|---|---|
//! | [`pod`] | nothing; the pod as it is wanted, under Kubernetes' names | `v1.Pod` |
//! | [`status`] | nothing; the pod as the runtime reports it | `kubecontainer.PodStatus` |
//! | [`sandbox_changed`] | whether the pod needs another sandbox | `PodSandboxChanged` |
//! | [`actions`] | what to start, kill, resize and reset, and in which order | `computePodActions` |
//! | [`restart`] | whether a container that ended is started again | `ShouldContainerBeRestarted` |
//! | [`backoff`] | how long a failing container or pull waits | `doBackOff` |
//! | [`termination`] | in which order containers stop, and with how much grace | `terminationOrdering` |
//! | [`probe`] | what the results of a container's checks add up to | `prober.worker` |
//! | [`phase`] | how far a pod has come | `getPhase` |
//! | [`cri_config`] | what the runtime is told about a sandbox and a container | `generatePodSandboxConfig`, `generateContainerConfig` |
//! | [`image`] | whether an image is pulled, and what a failure is called | `shouldPullImage` |
//! | [`gc`] | which containers, sandboxes and images go | `containerGC`, `imageGCManager` |
//! | [`labels`] | by what the kubelet finds its own, and stops it without a manifest | `newContainerLabels`, `newContainerAnnotations` |
//! | [`log_path`] | where a container's log is | `BuildContainerLogsDirectory` |
//! | [`hash`] | whether a container's definition has changed | `HashContainer` |
//! | [`waiting`] | nothing; why a container does not run | `v1.ContainerStateWaiting` |
//! | [`userns`] | which ids a pod with users of its own has | `UsernsManager` |

pub mod actions;
pub mod backoff;
pub mod cri_config;
pub mod gc;
pub mod hash;
pub mod image;
pub mod labels;
pub mod log_path;
pub mod phase;
pub mod pod;
pub mod probe;
pub mod restart;
pub mod sandbox_changed;
pub mod status;
#[cfg(test)]
mod table;
pub mod termination;
mod time;
pub mod userns;
pub mod waiting;

pub use time::Timestamp;
