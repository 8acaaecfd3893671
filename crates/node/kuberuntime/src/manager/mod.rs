//! The manager: carries the decisions of this crate out on a CRI endpoint.
//!
//! A [`Manager`] is started with [`Options`], told which pods are wanted, and asked how they are:
//!
//! | to say | call |
//! |---|---|
//! | run this pod, or run it so from now on | [`Manager::set_pod`] |
//! | all sources have been read once | [`Manager::sources_ready`] |
//! | end this pod and forget it | [`Manager::remove_pod`] |
//! | end this pod and show it as failed (eviction, admission) | [`Manager::fail_pod`] |
//! | how is it | [`Manager::pods`], [`Manager::pod`], [`Manager::find_pod`] |
//! | what happens | [`Manager::watch`] |
//! | let me in | [`Manager::exec_url`], [`Manager::attach_url`], [`Manager::port_forward_url`], [`Manager::run_in_container`] |
//! | what did it write | [`Manager::container_logs`] |
//! | what does it use | [`Manager::pod_stats`], [`Manager::container_stats`] |
//! | is the node well | [`Manager::runtime_state`], [`Manager::health`] |
//! | in numbers | [`Manager::metrics`], [`Manager::probe_metrics`] |
//! | the end | [`Manager::shutdown`] |
//!
//! None of the calls that say what is wanted waits for it: each pod has a worker of its own, and
//! [`Manager::watch`] tells how it goes. Clones are handles on one manager.
//!
//! Pods are known by uid. Whoever reads manifests gives them out: the same uid for the same pod,
//! so that a manager started anew finds the containers of the pods it is told of. What it knew at
//! its end it knows from checkpoints beneath its root directory and goes on with at once; pods
//! that have not been named again by [`Manager::sources_ready`] are ended.

mod local;
mod logs;
#[allow(clippy::module_inception, reason = "the type it is about")]
mod manager;
mod node_facts;
mod shutdown;
mod streams;
mod usage;

pub use logs::LogReader;
pub use manager::Manager;
pub use shutdown::Shutdown;
pub use streams::ExecStreams;

pub use crate::cgroups::CgroupUsage;
pub use crate::error::{RequestError, StartError};
pub use crate::event::{Change, Event, Severity, Watch};
pub use crate::logs::LogQuery;
pub use crate::options::{
    CgroupDriver, CgroupOptions, DnsOptions, ImageOptions, LogOptions, NodeOptions, Options,
    UserNamespaceOptions,
};
pub use crate::pod_input::{InputError, Objects, PodInput, RuntimeClass, Secret};
pub use crate::pod_view::{PodView, Stage};
pub use crate::runtime_state::{Handler, RuntimeState};
