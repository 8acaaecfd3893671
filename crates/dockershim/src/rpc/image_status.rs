//! `ImageStatus`: one image; an empty response if it does not exist.

use std::collections::HashMap;

use orlop_cri_api::v1::{ImageStatusRequest, ImageStatusResponse};
use serde_json::json;

use crate::docker::types::Image;
use crate::error::{Error, Result};
use crate::rpc::list_images::pinned;
use crate::shim::Shim;
use crate::{policy, view};

pub(crate) async fn call(shim: &Shim, request: ImageStatusRequest) -> Result<ImageStatusResponse> {
    let name = request.image.map(|image| image.image).unwrap_or_default();
    if name.is_empty() {
        return Err(Error::invalid("image.image", "is empty; specify an image").into());
    }
    let found = match policy::find(&shim.docker, shim.policies.as_ref(), &name).await {
        Ok(found) => found,
        Err(error) if error.is_not_found() => return Ok(ImageStatusResponse::default()),
        Err(error) => return Err(error),
    };
    Ok(ImageStatusResponse {
        image: Some(view::image(&found, &pinned(shim))),
        info: if request.verbose {
            info(shim, &found).await
        } else {
            HashMap::new()
        },
    })
}

/// Returns the image's own specification in the format that clients expect.
async fn info(shim: &Shim, found: &Image) -> HashMap<String, String> {
    let history = shim.docker.image_history(&found.id).await.ok();
    let root_fs = &found.root_fs;
    let info = json!({
        "labels": found.config.labels,
        "imageSpec": {
            "created": found.created,
            "author": found.author,
            "architecture": found.architecture,
            "os": found.os,
            "config": found.config,
            "rootfs": { "type": root_fs["Type"], "diff_ids": root_fs["Layers"] },
            "history": history,
        },
    });
    HashMap::from([("info".to_owned(), info.to_string())])
}
