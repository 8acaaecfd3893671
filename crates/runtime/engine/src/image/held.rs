//! Image layers that containers hold.

use std::path::PathBuf;

use orlop_image_store::Images;

use crate::error::{Error, Result};

/// Returns the layers that a container holds, top first.
pub async fn held_layers(images: &Images, container: &str) -> Result<Vec<PathBuf>> {
    images.held_layers(container).await.map_err(|source| {
        let doing = format!("finding the layers of container {container}");
        Error::Image { doing, source }.into()
    })
}
