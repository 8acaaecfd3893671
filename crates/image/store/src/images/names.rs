//! Finds the images that a name refers to.

use super::front::Images;
use super::image::Image;
use crate::blocking::blocking;
use crate::registries::{name_meant, names_here, needs_file};
use crate::{Reference, Result};

impl Images {
    /// The full names that an image may have here by which `text` asks for it; none if it is no name, or
    /// one that can't be pulled. Looks at small files where a short name depends on them.
    pub async fn names_here(&self, text: &str) -> Result<Vec<Reference>> {
        let file = &self.context().config.registries;
        if !needs_file(file, text) {
            return names_here(file, text);
        }
        let (file, text) = (file.clone(), text.to_owned());
        blocking(move || names_here(&file, &text)).await
    }

    /// The name that a request means which asks for an image that is here by `text`; none where that is an id.
    pub async fn name_meant(&self, text: &str, image: &Image) -> Option<Reference> {
        let stands_for = self.names_here(text).await.unwrap_or_default();
        let names = image.repo_tags.iter().chain(&image.repo_digests);
        name_meant(text, stands_for, names.map(String::as_str), &image.id)
    }
}
