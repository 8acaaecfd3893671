//! Pulls images and mounts their root filesystems.
//!
//! [`Images`] is the store: it pulls, lists and removes images, keeps them across power failures, and provides their
//! layers, which [`rootfs`] mounts.
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests read what they wrote themselves"
    )
)]

mod admission;
mod archive;
mod artifact;
mod blocking;
mod clock;
mod config;
mod decryption;
mod digest;
mod document;
mod error;
mod evidence;
mod foreign;
#[doc(hidden)]
pub mod fuzzing;
mod image_config;
mod images;
mod lazy;
mod limits;
mod lookaside;
mod manifest;
mod media_type;
mod namespace;
mod pace;
mod patterns;
mod place;
mod platform;
mod policy;
mod pull;
mod reference;
mod registries;
mod registry;
pub mod rootfs;
mod store;
mod tape;
mod tar;
mod turns;
mod unpack;
mod verify;
mod verity;

pub use admission::{PullRequest, Wait};
pub use archive::ExportFormat;
pub use artifact::Artifact;
pub use config::Config;
pub use decryption::KeyFiles;
pub use digest::{Digest, InvalidDigest};
pub use error::{Cause, Error, Result};
pub use foreign::{
    Examined, ForeignIds, ForeignImage, ForeignImages, Leave, OnItsWay, Sweep, Target,
};
pub use image_config::ImageConfig;
pub use images::{FsUsage, Image, Images, ImportSource, LayerForm, Lease};
pub use lazy::{Here, LazyCounts, LazySettings, ReadFailure};
pub use limits::Limits;
pub use lookaside::check_signature_stores;
pub use pace::{Pace, Slow};
pub use place::Place;
pub use platform::Platform;
pub use policy::{PolicyFiles, PolicyFor, RequirementVerdict, Verdict};
pub use pull::{LayerProgress, LayerState, PullProgress, PullStep};
pub use reference::{DEFAULT_DOMAIN, Reference, Repository, Selector};
pub use registries::{RegistriesFile, Rule};
pub use registry::{
    AskedHost, Credentials, Explained, ExplainedName, NamespaceCredentials, check_credentials,
    check_registry_hosts,
};
pub use store::{Freed, StoreForm};
pub use unpack::{plain, unpack_changes};
pub use verify::{BrokenLayer, UnlabelledLayer, Verified};
