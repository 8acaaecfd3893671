//! What is on disk: layers, documents and the index that ties them together.

mod evidence;
mod handle;
mod index;
mod inherit;
mod label;
mod layout;
mod lazy;
mod leases;
mod mounts;
mod publish;
mod records;
mod remove;
mod startup;

pub(crate) use evidence::{
    Accepted, Attestation, Complete, Evidence, Findings, Kept, KnownBy, MAX_KEYS, Signature,
};
pub(crate) use handle::{Hold, Store, now};
pub(crate) use index::{Change, State};
pub(crate) use inherit::{Inherited, inherited};
pub(crate) use layout::{FS, IMAGE, Layout, Scratch, TAPE};
pub(crate) use mounts::{check, is_known};
pub(crate) use records::{Document, Form, ImageRecord, LayerRecord, Lazy, LeaseRecord, Sealed};
pub use remove::Freed;
