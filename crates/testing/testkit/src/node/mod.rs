//! The node under test: orlop, or containerd to hold a test against the reference.
//!
//! `ORLOP_TEST_PEER=containerd` runs the same test bodies on the reference, which is Debian's where
//! `ORLOP_TEST_CONTAINERD` names no other; `crio` and `cri-dockerd` on what `ORLOP_TEST_CRIO` and
//! `ORLOP_TEST_CRI_DOCKERD` name.

mod builder;
mod client;
mod containerd;
mod cri_dockerd;
mod crio;
mod directories;
mod ground;
mod network;
mod orlop;
mod programs;
mod running;
mod teardown;
mod v1_only;

pub use builder::{NodeBuilder, Which};
pub use client::{Client, WebServer, interrupt};
pub use containerd::{containerd_client, containerd_program};
pub use crio::crio_program;
pub use ground::Ground;
pub use programs::{binary, is_release, keeper_binary, lazy_binary, run_binary};
pub use running::{Node, Start};
