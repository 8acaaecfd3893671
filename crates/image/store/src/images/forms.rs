//! The forms of an image's layers on disk.

use super::front::Images;
use crate::store::Form;
use crate::{Digest, Error, Result};

/// The form of a layer on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerForm {
    /// A directory with its files.
    Files,
    /// An EROFS image file.
    Erofs,
    /// An EROFS image file that is still being downloaded.
    Lazy,
}

impl LayerForm {
    /// Returns its name for output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Erofs => "erofs",
            Self::Lazy => "lazy",
        }
    }
}

impl Images {
    /// Returns the forms of the image's layers, top first.
    pub fn layer_forms(&self, image: &Digest) -> Result<Vec<LayerForm>> {
        let state = self.store().state();
        let record = state.images.get(image);
        let record = record.ok_or_else(|| Error::NotFound(image.to_string()))?;
        let layers = record.layers.iter().rev();
        let layers = layers.filter_map(|key| state.layers.get(key));
        let forms = layers.map(|layer| match layer.form {
            Form::Files => LayerForm::Files,
            Form::Erofs(_) => LayerForm::Erofs,
            Form::Lazy(_) => LayerForm::Lazy,
        });
        Ok(forms.collect())
    }

    /// Returns the disk space of the image's layers in bytes, top first.
    pub fn layer_sizes(&self, image: &Digest) -> Result<Vec<u64>> {
        let state = self.store().state();
        let record = state.images.get(image);
        let record = record.ok_or_else(|| Error::NotFound(image.to_string()))?;
        let layers = record.layers.iter().rev();
        let layers = layers.filter_map(|key| state.layers.get(key));
        Ok(layers.map(|layer| layer.disk_bytes).collect())
    }
}
