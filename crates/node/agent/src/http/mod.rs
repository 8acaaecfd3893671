//! The kubelet's HTTP API, and the control socket for root.

mod answer;
mod cadvisor;
mod certificate;
mod checkpoint;
mod control;
mod logs;
mod metrics;
mod query;
mod router;
mod server;
mod stats;
mod stream;

pub(super) use server::Servers;
