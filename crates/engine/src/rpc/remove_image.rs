//! `RemoveImage`: forgets an image with all its names. Containers keep the layers they use.

use orlop_cri::v1::{RemoveImageRequest, RemoveImageResponse};

use crate::engine::Engine;
use crate::error::{Error, Result};

/// Answers the call. An image that is not there is removed.
pub async fn call(engine: &Engine, request: RemoveImageRequest) -> Result<RemoveImageResponse> {
    let name = request.image.unwrap_or_default().image;
    if name.is_empty() {
        return Err(Error::invalid("image.image", "is empty").into());
    }
    let engine_too = engine.clone();
    let remove = async move {
        let freed = engine_too.images.remove(&name).await;
        let freed = freed.inspect(|freed| engine_too.metrics.freed(freed));
        freed.map(drop).map_err(|source| {
            Error::Image {
                doing: format!("removing image {name:?}"),
                source,
            }
            .into()
        })
    };
    engine.finish(remove).await?;
    Ok(RemoveImageResponse {})
}
