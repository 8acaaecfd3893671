//! Finds the images that a name refers to.

use super::front::Images;
use super::image::Image;
use crate::blocking::blocking;
use crate::registries::{name_meant, names_here, needs_file};
use crate::{Reference, Result};

impl Images {
    /// Returns the full names that `text` may refer to in the store; empty if it is not a name, or cannot be pulled.
    /// Reads small files to resolve a short name.
    pub async fn names_here(&self, text: &str) -> Result<Vec<Reference>> {
        let file = &self.context().config.registries;
        if !needs_file(file, text) {
            return names_here(file, text);
        }
        let (file, text) = (file.clone(), text.to_owned());
        blocking(move || names_here(&file, &text)).await
    }

    /// Returns the full name that `text` means as a request for this image, or `None` if `text` is an id.
    pub async fn name_meant(&self, text: &str, image: &Image) -> Option<Reference> {
        let stands_for = self.names_here(text).await.unwrap_or_default();
        let names = image.repo_tags.iter().chain(&image.repo_digests);
        name_meant(text, stands_for, names.map(String::as_str), &image.id)
    }
}
