//! What tests share: a registry, images made on the spot, a daemon under test.
//!
//! | module | what a test gets from it |
//! |---|---|
//! | [`node`] | the daemon under test, or Debian's containerd as the reference, torn down on panic too |
//! | [`plugin`] | a plugin of the Node Resource Interface that the test plays |
//! | [`docker`] | Debian's Docker Engine, for the docker backend |
//! | [`cri`] | clients on its socket, pod and container configurations, whole-life shortcuts |
//! | [`assert_contains`] | an assertion about the words of a text |
//! | [`browser`] | Debian's Chromium on a page: mouse, keyboard, pictures, its console, what axe finds |
//! | [`bundle`] | root file systems and configurations for OCI runtimes |
//! | [`registry`] | Debian's docker-registry on a free loopback port |
//! | [`proxy`] | a registry's bad days: faults, login walls, request counts |
//! | [`tls`], [`web_proxy`] | TLS before a server, and the proxy between a node and the world |
//! | [`mutation`] | bounded fuzzing with the stable compiler |
//! | [`image`] | layers and images made from busybox, pushed or written as archives; layers to be fetched bit by bit |
//! | [`policy`] | signature policies of a node, and what they refuse |
//! | [`signature`] | keys, and signatures of images as cosign makes them |
//! | [`sigstore`] | certificates, logs and bundles as sigstore's signers make them |
//! | [`said_of_hostile_files`](said_of_hostile_files()) | what a reader says of files that are too large or never end |
//! | [`hanging_network`], [`silent_mount`] | a network and a file system that never answer |
//! | [`encryption`], [`key_provider`] | encrypted layers, and a service that unwraps their keys |
//! | [`leaks`] | what on this machine still carries a test's name |
//! | [`machine`] | what this machine can do, and the skip that says why |
//! | [`nest`](nest()) | directories within each other beyond any stack and any path |
//! | [`process`], [`scratch`] | programs and directories that end with the test |
//! | [`sandbox_controller`], [`sandbox_facts`] | who makes sandboxes behind a socket, and what is told of them |
//! | [`Starved`] | a process that can open nothing more |
//! | [`strace`] | what a program calls, and its death before one of the calls |
//! | [`task_front`] | what serves the tasks of an old shim in newer ways: by gRPC, with streams |
//! | [`terminal`] | a program on a terminal that the test plays |
//! | [`wait_until!`], [`block_until!`] | the wait for a condition, with a limit |
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
