//! `ImageStatus`: returns one image, or nothing if it is missing.

use std::collections::HashMap;

use orlop_cri_api::v1::{ImageStatusRequest, ImageStatusResponse};
use orlop_image_store::{Here, Image, Images, LayerForm};
use serde_json::{Value, json};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::image::{find, listed};

/// Handles the `ImageStatus` call.
pub async fn call(
    Engine(node): &Engine,
    request: ImageStatusRequest,
) -> Result<ImageStatusResponse> {
    let asked = request.image.unwrap_or_default();
    let name = asked.image;
    if name.is_empty() {
        return Err(Error::invalid("image.image", "is empty").into());
    }
    // Clients use this call to decide whether to pull: a missing image is not an error.
    let handler = node.runtimes.of_guests(&asked.runtime_handler);
    let image = find(&node.images, &name).await?;
    let Some(image) = image.filter(|image| image.handlers.contains(&handler)) else {
        return Ok(ImageStatusResponse::default());
    };
    let info = if request.verbose {
        info(&node.images, &image).await?
    } else {
        HashMap::new()
    };
    Ok(ImageStatusResponse {
        image: Some(listed(&image, &handler)),
        info,
    })
}

async fn info(images: &Images, image: &Image) -> Result<HashMap<String, String>> {
    let failed = |source| Error::Image {
        doing: format!("reading the records of image {}", image.id),
        source,
    };
    let config = images.raw_config(&image.id).await.map_err(failed)?;
    let config: Value = serde_json::from_slice(&config).unwrap_or_default();
    let layers = images.layer_dirs(&image.id).map_err(failed)?;
    let forms = images.layer_forms(&image.id).map_err(failed)?;
    let forms = forms.into_iter().map(LayerForm::name);
    let sizes = images.layer_sizes(&image.id).map_err(failed)?;
    let mut info = json!({
        "chainID": image.config.chain_id().map(|id| id.to_string()).unwrap_or_default(),
        "imageSpec": config,
        "layerForms": forms.collect::<Vec<_>>(),
        "layerSizes": sizes,
        "layers": layers,
        "manifest": image.manifest.to_string(),
        "size": image.size,
    });
    if image.is_encrypted {
        info["encrypted"] = true.into();
    }
    if let Some(artifact) = &image.config.artifact {
        // An artifact has no image configuration.
        info["artifactManifest"] = info["imageSpec"].take();
        info["artifactType"] = artifact.kind.as_str().into();
    }
    if let Some(Here { bytes, of }) = images.here(&image.id).await.map_err(failed)? {
        info["here"] = json!({ "bytes": bytes, "of": of });
    }
    Ok(HashMap::from([("info".to_owned(), info.to_string())]))
}
