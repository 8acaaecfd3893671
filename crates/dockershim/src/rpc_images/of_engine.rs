//! Calls about data that only the engine manages.

use orlop_cri_api::images::{
    CollectGarbageRequest, CollectGarbageResponse, ExportImagesRequest, ExportImagesResponse,
    FetchImagesRequest, ImageHere, ImportImagesRequest, ImportImagesResponse,
    ListImagesHereRequest, ListImagesHereResponse, PullProgress, ReadFailure, ResolveImageRequest,
    ResolveImageResponse, VerifyImagesRequest, VerifyImagesResponse, WatchPullsRequest,
    WatchReadFailuresRequest,
};
use orlop_cri_server::frame::Answers;
use tonic::Streaming;

/// Generates a module for each unsupported call, which returns an error with the alternative.
macro_rules! refuse {
    ($($call:ident($request:ty) -> $answer:ty: $instead:literal;)*) => {
        $(
            pub(crate) mod $call {
                #[allow(clippy::wildcard_imports, reason = "the messages of all calls")]
                use super::*;
                use crate::error::{Error, Result};
                use crate::shim::Shim;

                /// Returns an error with the alternative.
                pub(crate) async fn call(_: &Shim, _: $request) -> Result<$answer> {
                    let problem = concat!("the docker backend leaves images to the Docker Engine: ", $instead);
                    Err(Error::Unimplemented(problem.to_owned()).into())
                }
            }
        )*
    };
}

refuse! {
    resolve_image(ResolveImageRequest) -> ResolveImageResponse: "the engine selects registries by its daemon.json";
    collect_garbage(CollectGarbageRequest) -> CollectGarbageResponse: "use `docker image prune` to remove unused images";
    list_images_here(ListImagesHereRequest) -> ListImagesHereResponse: "all layers of its images are present";
    watch_pulls(WatchPullsRequest) -> Answers<PullProgress>: "the engine does not report the pulls of other clients";
    export_images(ExportImagesRequest) -> Answers<ExportImagesResponse>: "use `docker save` to export images";
    verify_images(VerifyImagesRequest) -> Answers<VerifyImagesResponse>: "the engine verifies images when it pulls them";
    fetch_images(FetchImagesRequest) -> Answers<ImageHere>: "all layers of its images are present";
    watch_read_failures(WatchReadFailuresRequest) -> Answers<ReadFailure>: "all layers of its images are present";
    import_images(Streaming<ImportImagesRequest>) -> ImportImagesResponse: "use `docker load` to import archives";
}
