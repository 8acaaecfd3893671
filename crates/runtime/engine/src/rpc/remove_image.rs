//! `RemoveImage`: removes an image with all its names, for the guests of one handler or for all others. Containers keep
//! the layers that they use.

use std::sync::Arc;

use orlop_cri_api::v1::{RemoveImageRequest, RemoveImageResponse};

use crate::engine::Engine;
use crate::error::{Error, Result};

/// Handles the `RemoveImage` call. Succeeds if the image does not exist.
pub async fn call(
    Engine(node): &Engine,
    request: RemoveImageRequest,
) -> Result<RemoveImageResponse> {
    let asked = request.image.unwrap_or_default();
    let name = asked.image;
    if name.is_empty() {
        return Err(Error::invalid("image.image", "is empty").into());
    }
    let handler = match asked.runtime_handler.as_str() {
        "" => String::new(),
        named => node.runtimes.of_guests(named),
    };
    let node_too = Arc::clone(node);
    let remove = async move {
        let freed = node_too.images.remove_for(&name, Some(handler)).await;
        let freed = freed.inspect(|freed| node_too.metrics.freed(freed));
        freed.map(drop).map_err(|source| {
            Error::Image {
                doing: format!("removing image {name:?}"),
                source,
            }
            .into()
        })
    };
    node.finish(remove).await?;
    Ok(RemoveImageResponse {})
}
