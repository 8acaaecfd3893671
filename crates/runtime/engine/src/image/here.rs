//! Local content of lazily pulled images.

use orlop_cri_api::images::ImageHere;
use orlop_image_store::{Here, Image, Images, LayerForm};

use crate::error::{Error, Result};

/// Returns how much of an image is on the node; `None` if all of it is.
pub async fn here(images: &Images, image: &Image) -> Result<Option<ImageHere>> {
    let failed = |source| Error::Image {
        doing: format!("checking how much of image {} is on the node", image.id),
        source,
    };
    let here = images.here(&image.id).await.map_err(failed)?;
    let Some(Here { bytes, of }) = here.filter(|here| here.bytes < here.of) else {
        return Ok(None);
    };
    let forms = images.layer_forms(&image.id).map_err(failed)?;
    let lazy = forms.iter().filter(|form| **form == LayerForm::Lazy);
    Ok(Some(ImageHere {
        bytes,
        size: of,
        layers: number(forms.len()),
        lazy_layers: number(lazy.count()),
        ..named(image)
    }))
}

/// Returns a message with only the image's id and names.
pub fn named(image: &Image) -> ImageHere {
    ImageHere {
        id: image.id.to_string(),
        names: image.repo_tags.clone(),
        ..ImageHere::default()
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
