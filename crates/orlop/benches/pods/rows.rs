//! The rows of the results that more than one file names.

/// The calls of a pod's life, of one with a network of its own.
pub(crate) const RUN: &str = "RunPodSandbox";
/// The part of that which the network takes.
pub(crate) const NETWORK: &str = "of which the network";
pub(crate) const CREATE: &str = "CreateContainer";
pub(crate) const START: &str = "StartContainer";
/// From RunPodSandbox to the end of StartContainer.
pub(crate) const POD_UP: &str = "pod up";
/// A command of the kubelet's.
pub(crate) const EXEC: &str = "ExecSync";
/// The same command by the runtime alone.
pub(crate) const OWN_EXEC: &str = "the runtime's own exec";
pub(crate) const STOP: &str = "StopContainer";
pub(crate) const REMOVE: &str = "RemoveContainer";
/// StopContainer and RemoveContainer: who cleans up in which of them is the runtime's choice.
pub(crate) const REMOVED: &str = "container gone";
pub(crate) const STOP_POD: &str = "StopPodSandbox";
pub(crate) const REMOVE_POD: &str = "RemovePodSandbox";
/// From StopContainer to the end of RemovePodSandbox.
pub(crate) const POD_DOWN: &str = "pod down";
/// Up and down of a pod on the host's network.
pub(crate) const HOST_UP: &str = "pod up, host network";
pub(crate) const HOST_DOWN: &str = "pod down, host network";
/// Whole lives of pods, back to back.
pub(crate) const ONE_CLIENT: &str = "pods/s, one client";
pub(crate) const FOUR_CLIENTS: &str = "pods/s, four clients";
/// Processor time of commands at a pace, all of it.
pub(crate) const PROBES: &str = "CPU of 100 probes a second";
/// ListContainers among the crowd.
pub(crate) const LIST: &str = "ListContainers";
/// The same by `orlop ps -a`, start-up included.
pub(crate) const PROMPT: &str = "orlop ps -a";
/// The program that is both, stripped.
pub(crate) const BINARY: &str = "size of orlop";
/// Statistics of all pods of the crowd.
pub(crate) const STATS: &str = "ListPodSandboxStats";
/// What they take of the daemon's processor time.
pub(crate) const STATS_CPU: &str = "CPU of ListPodSandboxStats";
/// Metrics of all pods of the crowd.
pub(crate) const METRICS: &str = "ListPodSandboxMetrics";
/// From the daemon's start to its first answer, among the crowd.
pub(crate) const RESTART: &str = "daemon restart";
/// Memory that each pod adds.
pub(crate) const MEMORY: &str = "memory per pod";
/// Processor time of an idle node with the crowd.
pub(crate) const IDLE: &str = "idle CPU";
/// Processor time of a daemon whom a kubelet asks.
pub(crate) const POLLING: &str = "CPU while a kubelet polls";
/// Pods of the crowd that did not start.
pub(crate) const CROWD_FAILED: &str = "failed in parallel";
/// Pods with a network of their own that did not start.
pub(crate) const NETWORKED_FAILED: &str = "failed in parallel, bridge";
/// Addresses that two pods have.
pub(crate) const ADDRESSES_TWICE: &str = "addresses given twice";
/// What the daemon holds open for each pod, statistics having been asked for.
pub(crate) const DESCRIPTORS: &str = "descriptors per pod";
