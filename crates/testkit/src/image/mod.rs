//! Images made on the spot: layers, manifests of both kinds, indexes; pushed or archived.

mod archive;
mod builder;
mod layer;
mod push;
mod wasm;

pub use builder::{
    Blob, BuiltImage, Compression, Format, Hash, ImageBuilder, digest, host_architecture,
};
pub use layer::Layer;
pub use tar::EntryType;
pub use wasm::{Ending, module};
