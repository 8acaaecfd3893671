//! What other runtimes leave on a node, read for a move to orlop: their configuration as a plan, their
//! images as archives. Nothing of theirs is changed, and nothing is asked of a network.
//!
//! | module | what it holds |
//! |---|---|
//! | `config` | their configuration: each line taken over, not needed, or without a counterpart |
//! | `kubelet` | what the kubelet is told of its runtime, and what it should be |
//! | `stores` | the images of containerd, CRI-O and Docker, each as an archive that is made while it is read |
//! | `bolt` | the database in which containerd has the names of images |
//! | `tar_split` | layers made again from their files, byte for byte |
//! | `regular` | files of their stores, which are opened only when they are known to be regular ones |
//! | `archive` | a tar archive that is written without being held |
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests read what they wrote themselves"
    )
)]

mod archive;
mod bolt;
mod config;
mod digest;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod kubelet;
mod regular;
mod stores;
mod tar_split;

pub use archive::Archive;
pub use config::{
    CriDockerd, Machine, Note, Outcome, Plan, containerd_plan, crio_plan, docker_plan,
};
pub use error::{Error, Result};
pub use kubelet::{Advice, kubelet_advice};
pub use stores::{StoredImage, containerd_images, docker_images, storage_images};
