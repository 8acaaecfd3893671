//! Shared test support: registries, generated images, nodes under test, and fault injection.
//!
//! | module | content |
//! |---|---|
//! | [`node`] | the daemon under test or another runtime, cleaned up even after a panic |
//! | [`plugin`] | a fake plugin for the Node Resource Interface |
//! | [`docker`] | Debian's Docker Engine, for the docker backend |
//! | [`cri`] | CRI clients, pod and container configurations, life cycle shortcuts |
//! | [`assert_contains`] | an assertion about the content of a text |
//! | [`browser`] | Debian's Chromium: mouse, keyboard, screenshots, console, accessibility checks with axe |
//! | [`bundle`] | root file systems and configurations for OCI runtimes |
//! | [`registry`] | Debian's docker-registry on a free loopback port |
//! | [`proxy`] | a registry proxy with faults, logins and request counts |
//! | [`tls`], [`web_proxy`] | TLS in front of a server, and an HTTP proxy for outgoing connections |
//! | [`mutation`] | bounded fuzzing with the stable compiler |
//! | [`image`] | layers and images made from busybox, pushed or written as archives; layers for lazy pulling |
//! | [`policy`] | signature policies of a node, and assertions about refusals |
//! | [`signature`] | keys, and image signatures in cosign's format |
//! | [`sigstore`] | sigstore certificates, logs and bundles |
//! | [`said_of_hostile_files`](said_of_hostile_files()) | errors of a reader for files that are too large or endless |
//! | [`hanging_network`], [`silent_mount`] | a network and a filesystem that never respond |
//! | [`encryption`], [`key_provider`] | encrypted layers, and a key provider service |
//! | [`leaks`] | leftover resources with a test's name |
//! | [`machine`] | capabilities of this machine, and skips with a reason |
//! | [`nest`](nest()) | nested directories that are too deep for a stack or a path |
//! | [`process`], [`scratch`] | programs and directories that are removed with the test |
//! | [`sandbox_controller`], [`sandbox_facts`] | a controller of containerd's Sandbox API, and its responses |
//! | [`Starved`] | a process without free file descriptors |
//! | [`strace`] | system calls of a program, and kills before one of them |
//! | [`task_front`] | a server in front of an old shim with newer protocols: gRPC, streams |
//! | [`terminal`] | a program on a terminal that the test controls |
//! | [`wait_until!`], [`block_until!`] | waits for a condition, with a time limit |
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "tests fail by panicking, and read what they wrote themselves"
)]

pub mod browser;
pub mod bundle;
mod contains;
pub mod cri;
pub mod docker;
pub mod encryption;
mod frames;
pub mod gpg;
pub mod hanging_network;
mod hostile_files;
pub mod http;
pub mod image;
pub mod key_provider;
pub mod leaks;
pub mod machine;
pub mod mutation;
mod nest;
pub mod node;
pub mod plugin;
pub mod policy;
pub mod process;
pub mod proxy;
mod raw;
pub mod registry;
pub mod sandbox_controller;
pub mod sandbox_facts;
pub mod scratch;
mod serve;
pub mod signature;
pub mod sigstore;
pub mod silent_mount;
mod starved;
pub mod strace;
pub mod task_front;
pub mod terminal;
pub mod tls;
pub mod wait;
pub mod web_proxy;

pub use browser::{Browser, BrowserOptions};
pub use cri::{ContainerSpec, Cri, PodSpec};
pub use docker::DockerEngine;
pub use gpg::Gpg;
pub use hanging_network::HangingNetwork;
pub use hostile_files::{most_memory, said_of_hostile_files};
pub use image::{
    BuiltImage, Chunked, ChunkedLayer, Compression, Cut, Format, Hash, ImageBuilder, LargeTree,
    Layer,
};
pub use key_provider::{KeyProvider, ProviderManners};
pub use mutation::{Chance, Fuzz};
pub use nest::nest;
pub use orlop_nri as nri;

pub use node::{Node, NodeBuilder};
pub use plugin::{Manners, Plugin};
pub use proxy::{Fault, FaultProxy, Rule};
pub use registry::{Login, Registry};
pub use sandbox_controller::{SandboxController, Whims};
pub use scratch::Scratch;
pub use serve::reactor;
pub use signature::{ImageAttestation, ImageSignature, KeyKind, Signer};
pub use silent_mount::SilentMount;
pub use starved::Starved;
pub use task_front::TaskFront;
pub use terminal::Terminal;
pub use tls::{Authority, TlsFront};
pub use web_proxy::WebProxy;
