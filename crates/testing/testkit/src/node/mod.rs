//! The node under test: orlop, or another runtime to compare with.
//!
//! `ORLOP_TEST_PEER=containerd` runs the same tests with Debian's containerd, or with the one in
//! `ORLOP_TEST_CONTAINERD`. `crio` and `cri-dockerd` select the programs in `ORLOP_TEST_CRIO` and
//! `ORLOP_TEST_CRI_DOCKERD`.

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
