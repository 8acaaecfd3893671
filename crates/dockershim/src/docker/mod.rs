//! The part of the Docker Engine's API that the service uses.

mod client;
mod containers;
mod error;
mod exec;
mod frames;
mod hijack;
mod images;
mod operations;
mod reply;
mod system;
pub(crate) mod types;
mod version;

pub(crate) use client::Docker;
pub(crate) use containers::{Follow, Force, Streams, Which};
pub(crate) use error::DockerError;
pub(crate) use exec::ExecConfig;
pub(crate) use frames::{Frames, Source};
pub(crate) use hijack::Hijacked;
pub(crate) use images::RegistryAuth;
pub use operations::Operations;
pub(crate) use reply::Reply;
pub(crate) use version::ApiVersion;
