//! Handlers with a single response.

mod configuration;
mod images;
mod info;
mod networks;
mod pod;
mod settings;
mod traces;

pub(crate) use images::images;
pub(crate) use networks::networks;
pub(crate) use pod::{environment, pod};
pub(crate) use settings::{manifests, settings};
pub(crate) use traces::traces;
