//! Image archives: OCI image layouts and the format of `docker save`.

mod export;
mod import;

pub use export::ExportFormat;
pub(crate) use export::{ExportImage, export, export_directory};
pub(crate) use import::import;
