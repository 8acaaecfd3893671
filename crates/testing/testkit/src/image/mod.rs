//! Generated images: layers, OCI and Docker manifests, indexes; pushed or archived.

mod archive;
mod artifact;
mod blob;
mod builder;
mod built;
mod chunked;
mod compression;
mod entries;
mod large;
mod layer;
mod push;
mod soci;
mod wasm;

pub use artifact::ArtifactBlob;
pub use blob::{Blob, Hash, digest};
pub use builder::{Format, ImageBuilder, host_architecture};
pub use built::BuiltImage;
pub use chunked::{Chunked, ChunkedLayer, ChunkedWriter, Cut};
pub use compression::Compression;
pub use large::LargeTree;
pub use layer::Layer;
pub use soci::{Boundary, ZtocParts, boundaries, flat, ztoc};
pub use tar::EntryType;
pub use wasm::{Ending, module};
