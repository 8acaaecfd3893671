//! The data on disk: layers, documents and the index that connects them.

mod handle;
mod index;
mod inherit;
mod label;
mod layer_check;
mod layer_form;
mod layout;
mod lazy;
mod leases;
mod mounts;
mod publish;
mod records;
mod remove;
mod startup;
mod unmount;

pub(crate) use handle::{Hold, Store};
pub(crate) use index::{Change, State};
pub(crate) use inherit::{Inherited, inherited};
pub(crate) use layer_check::Soundness;
pub use layer_form::StoreForm;
pub(crate) use layout::{FS, IMAGE, Layout, Scratch, TAPE, TOC};
pub(crate) use mounts::{check, is_known};
pub(crate) use records::{Form, ImageRecord, LayerRecord, Lazy, LeaseRecord, Sealed};
pub use remove::Freed;
