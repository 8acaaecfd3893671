//! One worker for each pod, like the goroutines of the kubelet's `podWorkers`: only the worker
//! starts and stops the pod's containers.
//!
//! [`worker_loop`] is the worker's loop. [`sync_pod`] is one step of it, as decided by
//! `computePodActions` of `orlop-kubelet-rules`.

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
