//! The manager: carries out the decisions of `orlop-kubelet-rules` on a CRI endpoint.
//!
//! Start a [`Manager`] with [`Options`], pass it the wanted pods, and query their state:
//!
//! | task | call |
//! |---|---|
//! | add or update a pod | [`Manager::set_pod`] |
//! | declare that all sources have been read once | [`Manager::sources_ready`] |
//! | stop a pod and forget it | [`Manager::remove_pod`] |
//! | stop a pod and show it as failed (eviction, admission) | [`Manager::fail_pod`] |
//! | get the state of pods | [`Manager::pods`], [`Manager::pod`], [`Manager::find_pod`] |
//! | watch changes | [`Manager::watch`] |
//! | open a streaming session | [`Manager::exec_url`], [`Manager::attach_url`], [`Manager::port_forward_url`] |
//! | run a command to completion | [`Manager::run_in_container`] |
//! | read logs | [`Manager::container_logs`] |
//! | read resource usage | [`Manager::pod_stats`], [`Manager::container_stats`] |
//! | check the health of the node | [`Manager::runtime_state`], [`Manager::health`] |
//! | read metrics | [`Manager::metrics`], [`Manager::probe_metrics`] |
//! | shut down | [`Manager::shutdown`] |
//!
//! Calls that change the wanted state return at once: each pod has its own worker, and
//! [`Manager::watch`] reports the progress. Clones are handles to one manager.
//!
//! Pods are identified by uid. The caller that reads manifests assigns the uids: the same pod must
//! get the same uid, so that a restarted manager finds its containers. The manager resumes from
//! checkpoints beneath its root directory. It stops pods that are not set again before
//! [`Manager::sources_ready`].

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
