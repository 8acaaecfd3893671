//! The kubelet's side of CRI, on any endpoint: what `orlop-kubelet-rules` decides is done here.
//!
//! | module | what it does |
//! |---|---|
//! | [`manager`] | the handle: told which pods are wanted, it has a worker carry out each |
//! | [`measure`] | how much of a disk a tree takes |
//! | [`text_file`] | reads what somebody else wrote |
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests read what they wrote themselves"
    )
)]

mod cgroups;
mod clock;
mod context;
mod error;
mod event;
mod hooks;
mod housekeeping;
mod image_manager;
mod logs;
mod mailbox;
pub mod manager;
pub mod measure;
mod metrics;
mod node_paths;
mod options;
mod pleg;
mod pod_input;
mod pod_status;
mod pod_view;
mod pod_worker;
mod prober;
mod runtime_state;
pub mod text_file;
mod userns;
mod volumes;
