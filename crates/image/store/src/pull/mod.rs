//! Pulling: from a reference to layers on disk and an image in the index.

mod allowance;
mod blob_locks;
mod context;
mod download;
mod flights;
mod ingest;
mod layer;
mod lazy;
mod lazy_layer;
mod named;
mod progress;
mod steps;
mod task;

pub(crate) use context::Context;
pub(crate) use flights::Flights;
pub(crate) use layer::Origin;
pub(crate) use named::Named;
pub(crate) use progress::Tracker;
pub use progress::{LayerProgress, LayerState, PullProgress};
pub use steps::PullStep;
pub(crate) use task::{Sources, check, fetch_layers, of_manifest, pull};
