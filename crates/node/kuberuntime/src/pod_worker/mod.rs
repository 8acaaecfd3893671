//! One worker for each pod, as the kubelet's `podWorkers` have one goroutine: it alone starts and
//! stops what is of the pod.
//!
//! [`life`] is its loop, [`sync_pod`] a step of it, which decides by `computePodActions` of
//! `orlop-kubelet-rules`.

mod adapt_to_node;
mod api_pod_status;
mod checkpoint;
mod conditions;
mod container_status;
mod create_sandbox;
mod events;
mod forgotten;
mod kill_containers;
mod life;
mod mailbox;
mod pod_status;
mod probes;
mod resize_containers;
mod start_container;
mod summary;
mod sync_pod;
mod terminate_pod;
mod termination_message;

pub(crate) use checkpoint::load_all;
pub(crate) use kill_containers::{Victim, kill_all, stop_sandboxes};
pub(crate) use life::run;
pub(crate) use mailbox::{Cause, Ending, Mailbox};
pub(crate) use pod_status::{Observation, observe};
