//! An image in the store of another runtime, and the reading of its files.

use std::path::Path;

use serde::de::DeserializeOwned;

use crate::{Archive, Error, Result, regular};

/// The largest manifest or configuration of an image.
const LARGEST_DOCUMENT: u64 = 4 << 20;

/// The largest list of images or layers.
const LARGEST_LIST: u64 = 64 << 20;

/// The most layers of an image.
pub(super) const MOST_LAYERS: usize = 1024;

/// An image of theirs.
pub struct StoredImage {
    /// What it is known by: its configuration's or its manifest's digest.
    pub id: String,
    /// Its names, which orlop will know it by.
    pub names: Vec<String>,
    pub(super) make: Make,
}

pub(super) type Make = Box<dyn FnOnce() -> Result<Archive> + Send>;

impl StoredImage {
    /// All of it as an archive; or why it can't be had. Blocks on files: much is read for it, and held by it.
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
