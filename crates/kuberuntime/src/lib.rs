//! The kubelet's side of CRI: what to do with a pod, decided from plain data, and done.
//!
//! The public modules but [`manager`] and [`agent`] talk to no runtime, disk or clock: they take
//! what is known and say what follows, so that every rule stands in a table of its tests. What
//! they say is done by the private ones (`worker`, `volumes`, `images`, `logs`, `checks` …).
//!
//! | module | what it decides |
//! |---|---|
//! | [`pod`] | nothing; the pod as it is wanted, under Kubernetes' names |
//! | [`status`] | nothing; the pod as the runtime reports it |
//! | [`sandbox_changed`] | whether the pod needs another sandbox |
//! | [`actions`] | what to start, kill, resize and reset, and in which order |
//! | [`restart`] | whether a container that ended is started again |
//! | [`backoff`] | how long a failing container or pull waits |
//! | [`termination`] | in which order containers stop, and with how much grace |
//! | [`probe`] | what the results of a container's checks add up to |
//! | [`phase`] | how far a pod has come |
//! | [`config`] | what the runtime is told about a sandbox and a container |
//! | [`image`] | whether an image is pulled, and what a failure is called |
//! | [`gc`] | which containers, sandboxes and images go |
//! | [`labels`] | by what the kubelet finds its own, and stops it without a manifest |
//! | [`log_path`] | where a container's log is |
//! | [`hash`] | whether a container's definition has changed |
//! | `userns` | which ids a pod with users of its own has |
//! | [`manager`] | nothing: it carries the decisions out |
//! | [`agent`] | which pods there are: manifests, admission, eviction; and the kubelet's HTTP API |
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests read what they wrote themselves"
    )
)]

pub mod actions;
pub mod agent;
pub mod backoff;
mod cgroups;
mod checks;
pub mod config;
pub mod gc;
pub mod hash;
mod hooks;
#[cfg(test)]
mod hostile;
mod housekeeping;
pub mod image;
mod images;
pub mod labels;
pub mod log_path;
mod logs;
pub mod manager;
mod measure;
mod metrics;
pub mod phase;
mod pleg;
pub mod pod;
pub mod probe;
mod prober;
mod reach;
pub mod restart;
pub mod sandbox_changed;
pub mod status;
#[cfg(test)]
mod table;
pub mod termination;
mod text_file;
mod time;
mod userns;
mod volumes;
mod worker;

pub use time::Timestamp;
