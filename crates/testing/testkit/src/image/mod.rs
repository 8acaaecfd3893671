//! Images made on the spot: layers, manifests of both kinds, indexes; pushed or archived.

mod archive;
mod artifact;
mod builder;
mod chunked;
mod entries;
mod large;
mod layer;
mod push;
mod soci;
mod wasm;

pub use artifact::ArtifactBlob;
pub use builder::{
    Blob, BuiltImage, Compression, Format, Hash, ImageBuilder, digest, host_architecture,
};
pub use chunked::{Chunked, ChunkedLayer, ChunkedWriter, Cut};
pub use large::LargeTree;
pub use layer::Layer;
pub use soci::{Boundary, ZtocParts, boundaries, flat, ztoc};
pub use tar::EntryType;
pub use wasm::{Ending, module};
