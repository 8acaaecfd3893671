//! The kubelet's side of the CRI, for any endpoint: this crate carries out what
//! `orlop-kubelet-rules` decides.
//!
//! | module | what it does |
//! |---|---|
//! | [`manager`] | the handle: it takes the wanted pods and runs a worker for each |
//! | [`measure`] | measures the disk usage of a directory tree |
//! | [`text_file`] | reads text files from untrusted sources |
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
