//! orlop: a container runtime for Kubernetes nodes, both the daemon and its clients.
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests read what they wrote themselves"
    )
)]

mod backend;
mod commands;
mod config;
#[cfg_attr(not(feature = "docker"), path = "without_docker_shim.rs")]
mod docker_shim;
mod doctor;
mod entry;
mod log;
mod memory;
mod metrics;
mod otlp;
mod profile;
mod rpc;
mod serve;
mod service_manager;
mod threads;

use std::process::ExitCode;

fn main() -> ExitCode {
    entry::main()
}
