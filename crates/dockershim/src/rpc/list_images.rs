//! `ListImages`: the images that match a filter.

use orlop_cri_api::v1::{ListImagesRequest, ListImagesResponse};

use crate::error::{Error, Result};
use crate::shim::Shim;
use crate::{policy, view};

pub(crate) async fn call(shim: &Shim, request: ListImagesRequest) -> Result<ListImagesResponse> {
    let wanted = request.filter.and_then(|filter| filter.image);
    let wanted = wanted.map(|image| image.image).unwrap_or_default();
    let pinned = pinned(shim);
    if !wanted.is_empty() {
        let images = match policy::find(&shim.docker, shim.policies.as_ref(), &wanted).await {
            Ok(found) => vec![view::image(&found, &pinned)],
            Err(error) if error.is_not_found() => Vec::new(),
            Err(error) => return Err(error),
        };
        return Ok(ListImagesResponse { images });
    }
    let listed = shim
        .docker
        .list_images()
        .await
        .map_err(Error::engine("listing images"))?;
    let images = listed
        .into_iter()
        .map(|image| view::listed_image(image, &pinned))
        .collect();
    Ok(ListImagesResponse { images })
}

/// Returns the images that the kubelet must not collect: those of the sandboxes.
pub(crate) fn pinned(shim: &Shim) -> Vec<String> {
    let configured = shim.config.pause_image.iter().cloned();
    configured
        .chain([crate::pause::BUILT_IN.to_owned()])
        .collect()
}
