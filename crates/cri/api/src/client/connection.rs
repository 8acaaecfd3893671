//! One connection to an endpoint, and the clients that share it.

use tonic::transport::Channel;

use super::call::Caller;
use super::options::ClientOptions;
use super::{ImageClient, RuntimeClient, transport};
use crate::extensions::containers_client::ContainersClient;
use crate::extensions::images_client::ImagesClient;
use crate::extensions::inspection_client::InspectionClient;
use crate::extensions::networks_client::NetworksClient;
use crate::{Endpoint, v1};

/// A connection to an endpoint. It is made at the first call and made anew, with growing pauses,
/// when it breaks; calls meanwhile fail at once. Clients made from it share it.
#[derive(Debug, Clone)]
pub struct Connection {
    channel: Channel,
    endpoint: Endpoint,
    options: ClientOptions,
}

impl Connection {
    /// A connection to be made at the first call. Needs a tokio runtime around it.
    pub fn new(endpoint: Endpoint, options: ClientOptions) -> Self {
        Self {
            channel: transport::channel(&endpoint),
            endpoint,
            options,
        }
    }

    /// Where it leads.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The client of the runtime service.
    pub fn runtime(&self) -> RuntimeClient {
        let client = v1::runtime_service_client::RuntimeServiceClient::new(self.channel.clone())
            .max_decoding_message_size(self.options.max_message)
            .max_encoding_message_size(self.options.max_message);
        RuntimeClient::new(client, self.caller())
    }

    /// The client of the image service.
    pub fn images(&self) -> ImageClient {
        let client = v1::image_service_client::ImageServiceClient::new(self.channel.clone())
            .max_decoding_message_size(self.options.max_message)
            .max_encoding_message_size(self.options.max_message);
        ImageClient::new(client, self.caller())
    }

    /// The generated client of orlop's own service for operators; only orlop answers it.
    pub fn orlop_inspection(&self) -> InspectionClient<Channel> {
        InspectionClient::new(self.channel.clone())
            .max_decoding_message_size(self.options.max_message)
            .max_encoding_message_size(self.options.max_message)
    }

    /// The generated client of orlop's own image service; only orlop answers it.
    pub fn orlop_images(&self) -> ImagesClient<Channel> {
        ImagesClient::new(self.channel.clone())
            .max_decoding_message_size(self.options.max_message)
            .max_encoding_message_size(self.options.max_message)
    }

    /// The generated client of orlop's own service of networks; only orlop answers it.
    pub fn orlop_networks(&self) -> NetworksClient<Channel> {
        NetworksClient::new(self.channel.clone())
            .max_decoding_message_size(self.options.max_message)
            .max_encoding_message_size(self.options.max_message)
    }

    /// The generated client of orlop's own service of containers; only orlop answers it.
    pub fn orlop_containers(&self) -> ContainersClient<Channel> {
        ContainersClient::new(self.channel.clone())
            .max_decoding_message_size(self.options.max_message)
            .max_encoding_message_size(self.options.max_message)
    }

    fn caller(&self) -> Caller {
        Caller::new(self.endpoint.clone(), &self.options)
    }
}
