//! Reads the data of other runtimes for a migration to orlop: their configuration as a plan, their images as archives.
//! It changes nothing and uses no network.
//!
//! | module | content |
//! |---|---|
//! | `config` | the configuration: each line is converted, not needed, or has no equivalent |
//! | `kubelet` | kubelet settings for the runtime, and how to change them |
//! | `stores` | the images of containerd, CRI-O and Docker, each as an archive that is built while it is read |
//! | `bolt` | reader of the database with containerd's image names |
//! | `tar_split` | layers reassembled from their files, byte for byte |
//! | `regular` | opens only regular files of the image stores |
//! | `archive` | a tar archive that is written as a stream |
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
