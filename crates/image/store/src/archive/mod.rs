//! Images as files: OCI image layouts and what `docker save` writes.

mod export;
mod import;

pub use export::ExportFormat;
pub(crate) use export::{ExportImage, export, export_directory};
pub(crate) use import::import;
