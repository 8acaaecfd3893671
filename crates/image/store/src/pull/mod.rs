//! Pulling: from a reference to layers on disk and an image in the index.

mod admission;
mod allowance;
mod attestations;
mod bundles;
mod download;
mod flights;
mod ingest;
mod layer;
mod lazy;
mod named;
mod progress;
mod resolve;
mod search;
mod signatures;
mod steps;
mod task;
mod turns;

pub(crate) use admission::{after as admitted, before as refuse_early};
pub(crate) use attestations::listed_attestations;
pub(crate) use bundles::bundle_of;
pub(crate) use flights::Flights;
pub(crate) use layer::Origin;
pub(crate) use signatures::listed;

pub(crate) use named::Named;
pub use progress::{LayerProgress, LayerState, PullProgress};
pub(crate) use progress::{Tracker, next_number};
pub(crate) use resolve::Asker;
pub(crate) use search::{beside, early, needs_signatures};
pub use steps::PullStep;
pub(crate) use task::{Context, Request, Sources, check, fetch_layers, of_manifest, pull};
pub(crate) use turns::Turns;
