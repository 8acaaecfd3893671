//! Metrics for Prometheus, and the health check.

mod engine;
mod entrance;
mod health;
mod process;
mod server;

pub(crate) use engine::{Backend, Running};
pub(crate) use entrance::Guard;
pub(crate) use health::Health;
pub(crate) use server::{Exporter, serve};
