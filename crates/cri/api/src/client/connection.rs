//! A connection to an endpoint, and the clients that share it.

use tonic::transport::Channel;

use super::call::Caller;
use super::options::ClientOptions;
use super::{ImageClient, RuntimeClient, transport};
use crate::extensions::containers_client::ContainersClient;
use crate::extensions::images_client::ImagesClient;
use crate::extensions::inspection_client::InspectionClient;
use crate::extensions::networks_client::NetworksClient;
use crate::{Endpoint, v1};

/// A connection to an endpoint. It connects at the first call. When it breaks, it reconnects with growing pauses;
/// calls fail at once meanwhile. Clients created from it share it.
#[derive(Debug, Clone)]
pub struct Connection {
    channel: Channel,
    endpoint: Endpoint,
    options: ClientOptions,
}

impl Connection {
    /// Creates a connection that connects at the first call. Needs a tokio runtime.
    pub fn new(endpoint: Endpoint, options: ClientOptions) -> Self {
        Self {
            channel: transport::channel(&endpoint),
            endpoint,
            options,
        }
    }

    /// Returns the endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns the client of the runtime service.
    pub fn runtime(&self) -> RuntimeClient {
        let client = v1::runtime_service_client::RuntimeServiceClient::new(self.channel.clone())
            .max_decoding_message_size(self.options.max_message)
            .max_encoding_message_size(self.options.max_message);
        RuntimeClient::new(client, self.caller())
    }

    /// Returns the client of the image service.
    pub fn images(&self) -> ImageClient {
        let client = v1::image_service_client::ImageServiceClient::new(self.channel.clone())
            .max_decoding_message_size(self.options.max_message)
            .max_encoding_message_size(self.options.max_message);
        ImageClient::new(client, self.caller())
    }

    /// Returns the generated client of orlop's own inspection service; other runtimes do not implement it.
    pub fn orlop_inspection(&self) -> InspectionClient<Channel> {
        InspectionClient::new(self.channel.clone())
            .max_decoding_message_size(self.options.max_message)
            .max_encoding_message_size(self.options.max_message)
    }

    /// Returns the generated client of orlop's own image service; other runtimes do not implement it.
    pub fn orlop_images(&self) -> ImagesClient<Channel> {
        ImagesClient::new(self.channel.clone())
            .max_decoding_message_size(self.options.max_message)
            .max_encoding_message_size(self.options.max_message)
    }

    /// Returns the generated client of orlop's own network service; other runtimes do not implement it.
    pub fn orlop_networks(&self) -> NetworksClient<Channel> {
        NetworksClient::new(self.channel.clone())
            .max_decoding_message_size(self.options.max_message)
            .max_encoding_message_size(self.options.max_message)
    }

    /// Returns the generated client of orlop's own container service; other runtimes do not implement it.
    pub fn orlop_containers(&self) -> ContainersClient<Channel> {
        ContainersClient::new(self.channel.clone())
            .max_decoding_message_size(self.options.max_message)
            .max_encoding_message_size(self.options.max_message)
    }

    fn caller(&self) -> Caller {
        Caller::new(self.endpoint.clone(), &self.options)
    }
}
