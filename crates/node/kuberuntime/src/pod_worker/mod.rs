//! One worker for each pod, as the kubelet's `podWorkers` have one goroutine: it alone starts and
//! stops what is of the pod.
//!
//! [`worker_loop`] is its loop, [`sync_pod`] a step of it, which decides by `computePodActions` of
//! `orlop-kubelet-rules`.

mod adapt_to_node;
mod api_pod_status;
mod checkpoint;
mod conditions;
mod container_state;
mod container_status;
mod create_sandbox;
mod events;
mod forgotten;
mod kill_containers;
mod life;
mod probes;
mod problem;
mod resize_containers;
mod start_container;
mod summary;
mod sync_pod;
mod terminate_pod;
mod termination_message;
mod worker_loop;

pub(crate) use checkpoint::load_all;
pub(crate) use kill_containers::{Victim, kill_all, stop_sandboxes};
pub(crate) use worker_loop::run;
