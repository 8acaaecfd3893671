//! Calls of the image service.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tonic::transport::Channel;

use super::call::{Caller, list, unary};
use super::{ClientError, ClientOptions, Connection, validate};
use crate::v1::image_service_client::ImageServiceClient;
use crate::{Endpoint, Rpc, v1};

/// The client of the image service. Cheap to clone; clones share one connection.
#[derive(Debug, Clone)]
pub struct ImageClient {
    pub(super) client: ImageServiceClient<Channel>,
    pub(super) caller: Caller,
    streaming: Arc<AtomicBool>,
}

/// The input of a pull: the image, credentials, and the pod.
#[derive(Debug, Clone, Default)]
pub struct PullRequest {
    /// The image.
    pub image: v1::ImageSpec,
    /// Registry credentials, if needed.
    pub auth: Option<v1::AuthConfig>,
    /// The pod that needs the image.
    pub pod: Option<v1::PodSandboxConfig>,
}

impl ImageClient {
    pub(super) fn new(client: ImageServiceClient<Channel>, caller: Caller) -> Self {
        let streaming = Arc::new(AtomicBool::new(caller.streaming_lists));
        Self {
            client,
            caller,
            streaming,
        }
    }

    /// Connects and checks that an image service answers.
    pub async fn connect(endpoint: Endpoint, options: ClientOptions) -> Result<Self, ClientError> {
        let client = Connection::new(endpoint, options).images();
        client.image_fs_info().await?;
        Ok(client)
    }

    /// Lists the images that match the filter.
    pub async fn list_images(
        &self,
        filter: Option<v1::ImageFilter>,
    ) -> Result<Vec<v1::Image>, ClientError> {
        list!(self, stream_images(StreamImages, StreamImagesRequest, images)
            or list_images(ListImages, ListImagesRequest, images), filter)
    }

    /// Returns the status of an image; the response contains none if the image does not exist.
    pub async fn image_status(
        &self,
        image: v1::ImageSpec,
        verbose: bool,
    ) -> Result<v1::ImageStatusResponse, ClientError> {
        let message = v1::ImageStatusRequest {
            image: Some(image),
            verbose,
        };
        let mut answer =
            unary!(self.image_status as ImageStatus within self.caller.usual(), message)?;
        // Some runtimes return an empty image if it does not exist.
        if answer
            .image
            .as_ref()
            .is_some_and(|image| image.id.is_empty())
        {
            answer.image = None;
        }
        if let Some(image) = &answer.image {
            validate::present(Rpc::ImageStatus, "image.size", image.size != 0)?;
        }
        Ok(answer)
    }

    /// Pulls an image and returns its reference for later calls. There is no deadline; drop the future to cancel.
    pub async fn pull_image(&self, pull: PullRequest) -> Result<String, ClientError> {
        let message = v1::PullImageRequest {
            image: Some(pull.image),
            auth: pull.auth,
            sandbox_config: pull.pod,
        };
        let answer = unary!(self.pull_image as PullImage within None, message)?;
        validate::filled(Rpc::PullImage, "image_ref", answer.image_ref)
    }

    /// Removes an image with all its names.
    pub async fn remove_image(&self, image: v1::ImageSpec) -> Result<(), ClientError> {
        let message = v1::RemoveImageRequest { image: Some(image) };
        unary!(self.remove_image as RemoveImage within self.caller.usual(), message)?;
        Ok(())
    }

    /// Returns the disk usage of the file systems of images and containers.
    pub async fn image_fs_info(&self) -> Result<v1::ImageFsInfoResponse, ClientError> {
        let message = v1::ImageFsInfoRequest {};
        unary!(self.image_fs_info as ImageFsInfo within self.caller.usual(), message)
    }
}
