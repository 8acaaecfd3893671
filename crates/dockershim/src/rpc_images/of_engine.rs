//! Calls about what the engine keeps and decides by itself.

use orlop_cri::images::{
    CollectGarbageRequest, CollectGarbageResponse, ExportImagesRequest, ExportImagesResponse,
    FetchImagesRequest, ImageHere, ImportImagesRequest, ImportImagesResponse,
    ListImagesHereRequest, ListImagesHereResponse, PullProgress, ReadFailure, ResolveImageRequest,
    ResolveImageResponse, VerifyImagesRequest, VerifyImagesResponse, WatchPullsRequest,
    WatchReadFailuresRequest,
};
use tonic::Streaming;

use crate::service::Answers;

/// A module for each call, which answers what to do instead.
macro_rules! refuse {
    ($($call:ident($request:ty) -> $answer:ty: $instead:literal;)*) => {
        $(
            pub(crate) mod $call {
                #[allow(clippy::wildcard_imports, reason = "the messages of all calls")]
                use super::*;
                use crate::error::{Error, Result};
                use crate::shim::Shim;

                /// Answers that it cannot be done, and what can.
                pub(crate) async fn call(_: &Shim, _: $request) -> Result<$answer> {
                    let problem = concat!("with the docker backend images are the engine's: ", $instead);
                    Err(Error::Unimplemented(problem.to_owned()).into())
                }
            }
        )*
    };
}

refuse! {
    resolve_image(ResolveImageRequest) -> ResolveImageResponse: "it decides whom it asks, by its daemon.json";
    collect_garbage(CollectGarbageRequest) -> CollectGarbageResponse: "`docker image prune` removes those that are not used";
    list_images_here(ListImagesHereRequest) -> ListImagesHereResponse: "they are there whole";
    watch_pulls(WatchPullsRequest) -> Answers<PullProgress>: "it tells of no pull of others";
    export_images(ExportImagesRequest) -> Answers<ExportImagesResponse>: "`docker save` writes them to an archive";
    verify_images(VerifyImagesRequest) -> Answers<VerifyImagesResponse>: "it compares them when it pulls them";
    fetch_images(FetchImagesRequest) -> Answers<ImageHere>: "they are there whole";
    watch_read_failures(WatchReadFailuresRequest) -> Answers<ReadFailure>: "they are there whole";
    import_images(Streaming<ImportImagesRequest>) -> ImportImagesResponse: "`docker load` takes archives in";
}
