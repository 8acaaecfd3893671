//! One connection to an endpoint, and the clients that share it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tonic::transport::Channel;

use super::call::{Caller, Observer};
use super::{ImageClient, RuntimeClient, transport};
use crate::extensions::containers_client::ContainersClient;
use crate::extensions::images_client::ImagesClient;
use crate::extensions::inspection_client::InspectionClient;
use crate::extensions::networks_client::NetworksClient;
use crate::server::MessageLimits;
use crate::{Endpoint, v1};

/// How a client behaves. The defaults are the kubelet's.
#[derive(Clone)]
pub struct ClientOptions {
    /// What a call may take that has no rule of its own.
    pub timeout: Duration,
    /// The biggest message to take and to send, in bytes.
    pub max_message: usize,
    /// Ask for lists as streams, until the runtime says that it doesn't know them.
    pub streaming_lists: bool,
    /// Told about each call when it ends.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_mins(2),
            max_message: MessageLimits::KUBELET,
            streaming_lists: true,
            observer: None,
        }
    }
}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions")
            .field("timeout", &self.timeout)
            .field("max_message", &self.max_message)
            .field("streaming_lists", &self.streaming_lists)
            .finish_non_exhaustive()
    }
}

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
