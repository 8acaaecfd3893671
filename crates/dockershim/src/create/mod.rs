//! Translation of pod and container configurations into the engine's.

mod container;
mod devices;
mod mounts;
mod namespaces;
mod pause_seccomp;
mod sandbox;
mod seccomp;
mod security;

pub(crate) use container::{Around as AroundContainer, container};
pub(crate) use sandbox::{Around as AroundSandbox, sandbox};
