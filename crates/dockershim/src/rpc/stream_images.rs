//! `StreamImages`: the images, in chunks.

use orlop_cri_api::v1::{ListImagesRequest, StreamImagesRequest, StreamImagesResponse};
use orlop_cri_server::frame::{Answers, in_batches};

use crate::error::Result;
use crate::rpc::list_images;
use crate::shim::Shim;

pub(crate) async fn call(
    shim: &Shim,
    request: StreamImagesRequest,
) -> Result<Answers<StreamImagesResponse>> {
    let request = ListImagesRequest {
        filter: request.filter,
    };
    let all = list_images::call(shim, request).await?.images;
    Ok(in_batches(all, |images| StreamImagesResponse { images }))
}
