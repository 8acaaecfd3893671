//! Unpacks compressed layers into directories or images that overlayfs can use.

mod attributes;
mod changes;
mod decompress;
mod extract;
mod layer;
mod memory;
mod packed;
mod pipe;
mod root;
mod taken;
mod target;
mod tree;
mod unpacked;
mod zstd_frames;

pub use changes::{plain, unpack_changes};
pub(crate) use extract::{RecordFiles, Spending};
pub(crate) use layer::{AsIs, Layer, pack, unpack};
pub(crate) use memory::{
    DEFAULT as UNPACK_MEMORY, Download, LayerMemory, NODE as MEMORY_BUDGET, Owner,
};
pub(crate) use packed::{OPAQUE, options};
pub(crate) use root::{LayerRoot, open_beneath};
pub(crate) use taken::take;
pub(crate) use unpacked::Unpacked;
