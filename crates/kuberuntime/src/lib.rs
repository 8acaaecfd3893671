//! The kubelet's side of CRI, on any endpoint: what `orlop-kubelet-rules` decides is done here.
//!
//! | module | what it does |
//! |---|---|
//! | [`manager`] | the handle: told which pods are wanted, it has a worker carry out each |
//! | [`agent`] | which pods there are: manifests, admission, eviction; and the kubelet's HTTP API |
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests read what they wrote themselves"
    )
)]

pub mod agent;
mod cgroups;
mod checks;
mod clock;
mod hooks;
#[cfg(test)]
mod hostile;
mod housekeeping;
mod images;
mod logs;
pub mod manager;
mod measure;
mod metrics;
mod pleg;
mod prober;
mod reach;
mod text_file;
mod userns;
mod volumes;
mod worker;
