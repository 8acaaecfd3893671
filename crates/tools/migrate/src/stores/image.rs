//! An image in the store of another runtime, and the reader of its files.

use std::path::Path;

use serde::de::DeserializeOwned;

use crate::{Archive, Error, Result, regular};

/// Size limit of a manifest or configuration.
const LARGEST_DOCUMENT: u64 = 4 << 20;

/// Size limit of a list of images or layers.
const LARGEST_LIST: u64 = 64 << 20;

/// Limit of layers in an image.
pub(super) const MOST_LAYERS: usize = 1024;

/// An image of another runtime.
pub struct StoredImage {
    /// Digest of its configuration or manifest.
    pub id: String,
    /// Names, which the import keeps.
    pub names: Vec<String>,
    pub(super) make: Make,
}

pub(super) type Make = Box<dyn FnOnce() -> Result<Archive> + Send>;

impl StoredImage {
    /// Builds an archive of the image, or returns why that is impossible. Blocks on files, and holds data in memory.
    pub fn archive(self) -> Result<Archive> {
        (self.make)()
    }
}

impl std::fmt::Debug for StoredImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredImage")
            .field("id", &self.id)
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

pub(super) fn document(path: &Path) -> Result<Vec<u8>> {
    read(path, LARGEST_DOCUMENT)
}

pub(super) fn list<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let bytes = read(path, LARGEST_LIST)?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Error::invalid(path.display().to_string(), error))
}

fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    let read = regular::open_file(path).and_then(|file| orlop_fs::read_whole(file, most));
    read.map_err(|error| Error::at("cannot read", path, error))
}
