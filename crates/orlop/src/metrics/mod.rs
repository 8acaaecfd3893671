//! Metrics for Prometheus, and the health check.

mod calls;
mod engine;
mod guard;
mod health;
mod process;
mod server;

pub(crate) use calls::{CallCounter, CallMetrics};
pub(crate) use engine::{Backend, Running};
pub(crate) use guard::Guard;
pub(crate) use health::Health;
pub(crate) use server::{Exporter, serve};
