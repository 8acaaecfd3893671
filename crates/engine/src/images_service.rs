//! The service `orlop.v1.Images`, each call handed to the file in `rpc_images/` that bears its
//! name.

use orlop_cri::images::images_server::Images;
use orlop_cri::images::{
    CollectGarbageRequest, CollectGarbageResponse, ExportImagesRequest, ExportImagesResponse,
    ImportImagesRequest, ImportImagesResponse, JudgeImageRequest, JudgeImageResponse, PullProgress,
    VerifyImagesRequest, VerifyImagesResponse, WatchPullsRequest,
};
use tonic::{Request, Response, Status, Streaming};

use crate::engine::Engine;
use crate::error::status;
use crate::rpc_images::{
    collect_garbage, export_images, import_images, judge_image, verify_images, watch_pulls,
};
use crate::service::Answers;

#[tonic::async_trait]
impl Images for Engine {
    type WatchPullsStream = Answers<PullProgress>;
    type ExportImagesStream = Answers<ExportImagesResponse>;
    type VerifyImagesStream = Answers<VerifyImagesResponse>;

    async fn watch_pulls(
        &self,
        request: Request<WatchPullsRequest>,
    ) -> Result<Response<Self::WatchPullsStream>, Status> {
        Ok(Response::new(watch_pulls::call(
            self,
            &request.into_inner(),
        )))
    }

    async fn import_images(
        &self,
        request: Request<Streaming<ImportImagesRequest>>,
    ) -> Result<Response<ImportImagesResponse>, Status> {
        let answer = import_images::call(self, request.into_inner()).await;
        answer.map(Response::new).map_err(|error| status(&error))
    }

    async fn export_images(
        &self,
        request: Request<ExportImagesRequest>,
    ) -> Result<Response<Self::ExportImagesStream>, Status> {
        let answer = export_images::call(self, request.into_inner());
        answer.map(Response::new).map_err(|error| status(&error))
    }

    async fn verify_images(
        &self,
        request: Request<VerifyImagesRequest>,
    ) -> Result<Response<Self::VerifyImagesStream>, Status> {
        let answer = verify_images::call(self, &request.into_inner());
        answer.map(Response::new).map_err(|error| status(&error))
    }

    async fn judge_image(
        &self,
        request: Request<JudgeImageRequest>,
    ) -> Result<Response<JudgeImageResponse>, Status> {
        let answer = judge_image::call(self, request.into_inner()).await;
        answer.map(Response::new).map_err(|error| status(&error))
    }

    async fn collect_garbage(
        &self,
        request: Request<CollectGarbageRequest>,
    ) -> Result<Response<CollectGarbageResponse>, Status> {
        let answer = collect_garbage::call(self, request.into_inner()).await;
        answer.map(Response::new).map_err(|error| status(&error))
    }
}
