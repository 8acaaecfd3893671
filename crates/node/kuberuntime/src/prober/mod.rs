//! Probes, and the actions of probes and hooks: the kubelet's `prober.Manager`.

mod check;
mod grpc;
mod http;
mod lookup;
mod probe_worker;
mod tls;

pub(crate) use check::{http_target, port_number, tcp_connect};
pub(crate) use grpc::grpc_health;
pub(crate) use http::{HttpError, HttpTarget, get};
pub(crate) use probe_worker::{Subject, run};
