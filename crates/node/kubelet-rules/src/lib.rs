//! The decisions of a kubelet, as functions of plain data.
//!
//! Nothing here uses a runtime, a disk, a network or a clock: the state is passed in, and the
//! result is returned. Therefore each rule has a table of tests. `clippy.toml` forbids everything
//! else. `orlop-kuberuntime` carries out the decisions.
//!
//! | module | decision | in the kubelet |
//! |---|---|---|
//! | [`pod`] | none; the pod specification, with the names of Kubernetes | `v1.Pod` |
//! | [`status`] | none; the pod's status in the runtime | `kubecontainer.PodStatus` |
//! | [`sandbox_changed`] | whether the pod needs a new sandbox | `PodSandboxChanged` |
//! | [`actions`] | what to start, kill, resize and reset, in order | `computePodActions` |
//! | [`restart`] | whether an exited container restarts | `ShouldContainerBeRestarted` |
//! | [`backoff`] | the delay of a failing container or pull | `doBackOff` |
//! | [`termination`] | the stop order of containers, and their grace periods | `terminationOrdering` |
//! | [`probe`] | the verdict from the results of a container's checks | `prober.worker` |
//! | [`phase`] | the pod's phase | `getPhase` |
//! | [`cri_config`] | CRI configurations | `generatePodSandboxConfig`, `generateContainerConfig` |
//! | [`image`] | whether an image is pulled, and why a pull failed | `shouldPullImage` |
//! | [`gc`] | which containers, sandboxes and images are removed | `containerGC`, `imageGCManager` |
//! | [`labels`] | labels and annotations | `newContainerLabels`, `newContainerAnnotations` |
//! | [`log_path`] | the path of a container's log | `BuildContainerLogsDirectory` |
//! | [`hash`] | whether a container's definition has changed | `HashContainer` |
//! | [`waiting`] | none; why a container is waiting | `v1.ContainerStateWaiting` |
//! | [`userns`] | the id range of a pod with its own user namespace | `UsernsManager` |

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
