//! Generated CRI clients on a unix socket, and calls on any path.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use orlop_cri_api::v1::image_service_client::ImageServiceClient;
use orlop_cri_api::v1::runtime_service_client::RuntimeServiceClient;
use prost::Message;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use crate::raw::Raw;

/// Message size limit of the kubelet.
const MESSAGE_LIMIT: usize = 16 << 20;

/// Timeout of a call; only a hang takes longer.
const PATIENCE: Duration = Duration::from_mins(1);

/// Both CRI services of an endpoint, over one connection.
#[derive(Debug, Clone)]
pub struct Cri {
    /// The runtime service.
    pub runtime: RuntimeServiceClient<Channel>,
    /// The image service.
    pub images: ImageServiceClient<Channel>,
    channel: Channel,
}

impl Cri {
    /// Connects to a socket.
    pub async fn connect(socket: &Path) -> Result<Self, tonic::transport::Error> {
        Self::connect_for(socket, PATIENCE).await
    }

    /// Connects to a socket, with a timeout for calls.
    pub async fn connect_for(
        socket: &Path,
        patience: Duration,
    ) -> Result<Self, tonic::transport::Error> {
        let socket: PathBuf = socket.to_owned();
        let connector = tower::service_fn(move |_| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        // The host part is for the HTTP headers only.
        let channel = Endpoint::from_static("http://localhost")
            .timeout(patience)
            .connect_with_connector(connector)
            .await?;
        Ok(Self {
            runtime: RuntimeServiceClient::new(channel.clone())
                .max_decoding_message_size(MESSAGE_LIMIT)
                .max_encoding_message_size(MESSAGE_LIMIT),
            images: ImageServiceClient::new(channel.clone())
                .max_decoding_message_size(MESSAGE_LIMIT)
                .max_encoding_message_size(MESSAGE_LIMIT),
            channel,
        })
    }

    /// Returns a client of the runtime service.
    pub fn runtime(&self) -> RuntimeServiceClient<Channel> {
        self.runtime.clone()
    }

    /// Returns a client of the image service.
    pub fn images(&self) -> ImageServiceClient<Channel> {
        self.images.clone()
    }

    /// Returns the connection, for services beyond the CRI.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Makes a unary call on any path: another version, an unknown service.
    pub async fn call<Q, A>(&self, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let mut grpc = tonic::client::Grpc::new(self.channel.clone());
        grpc.ready()
            .await
            .map_err(|e| Status::unavailable(e.to_string()))?;
        let codec = tonic_prost::ProstCodec::<Q, A>::default();
        let path = PathAndQuery::from_static(path);
        grpc.unary(Request::new(request), path, codec)
            .await
            .map(tonic::Response::into_inner)
    }

    /// Makes a unary or streaming call with an encoded request, and returns the first encoded message of the response.
    pub async fn first_answer(
        &self,
        path: &str,
        request: Vec<u8>,
    ) -> Result<Option<Vec<u8>>, Status> {
        let mut grpc = tonic::client::Grpc::new(self.channel.clone());
        grpc.ready()
            .await
            .map_err(|e| Status::unavailable(e.to_string()))?;
        let path = path.parse().expect("a path of a call");
        let answer = grpc.server_streaming(Request::new(request), path, Raw);
        answer.await?.into_inner().message().await
    }
}
