//! Message size limits, and services created with these limits.

use crate::extensions::containers_server::{Containers, ContainersServer};
use crate::extensions::images_server::{Images, ImagesServer};
use crate::extensions::inspection_server::{Inspection, InspectionServer};
use crate::extensions::networks_server::{Networks, NetworksServer};
use crate::v1::image_service_server::{ImageService, ImageServiceServer};
use crate::v1::runtime_service_server::{RuntimeService, RuntimeServiceServer};

/// The maximum message sizes in bytes.
///
/// The default is 16 MiB in both directions, as in the kubelet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageLimits {
    /// The maximum size of a request.
    pub receive: usize,
    /// The maximum size of a response.
    pub send: usize,
}

impl Default for MessageLimits {
    fn default() -> Self {
        Self {
            receive: Self::KUBELET,
            send: Self::KUBELET,
        }
    }
}

impl MessageLimits {
    /// The kubelet's limit in both directions.
    pub const KUBELET: usize = 16 << 20;

    /// Creates the runtime service for a tonic server.
    pub fn runtime_service<T: RuntimeService>(self, handler: T) -> RuntimeServiceServer<T> {
        RuntimeServiceServer::new(handler)
            .max_decoding_message_size(self.receive)
            .max_encoding_message_size(self.send)
    }

    /// Creates the image service for a tonic server.
    pub fn image_service<T: ImageService>(self, handler: T) -> ImageServiceServer<T> {
        ImageServiceServer::new(handler)
            .max_decoding_message_size(self.receive)
            .max_encoding_message_size(self.send)
    }

    /// Creates the service `orlop.v1.Inspection` for a tonic server.
    pub fn inspection<T: Inspection>(self, handler: T) -> InspectionServer<T> {
        InspectionServer::new(handler)
            .max_decoding_message_size(self.receive)
            .max_encoding_message_size(self.send)
    }

    /// Creates the service `orlop.v1.Images` for a tonic server.
    pub fn images<T: Images>(self, handler: T) -> ImagesServer<T> {
        ImagesServer::new(handler)
            .max_decoding_message_size(self.receive)
            .max_encoding_message_size(self.send)
    }

    /// Creates the service `orlop.v1.Networks` for a tonic server.
    pub fn networks<T: Networks>(self, handler: T) -> NetworksServer<T> {
        NetworksServer::new(handler)
            .max_decoding_message_size(self.receive)
            .max_encoding_message_size(self.send)
    }

    /// Creates the service `orlop.v1.Containers` for a tonic server.
    pub fn containers<T: Containers>(self, handler: T) -> ContainersServer<T> {
        ContainersServer::new(handler)
            .max_decoding_message_size(self.receive)
            .max_encoding_message_size(self.send)
    }
}
