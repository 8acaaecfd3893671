//! How big a message may be, and services made with those limits.

use crate::extensions::containers_server::{Containers, ContainersServer};
use crate::extensions::images_server::{Images, ImagesServer};
use crate::extensions::inspection_server::{Inspection, InspectionServer};
use crate::extensions::networks_server::{Networks, NetworksServer};
use crate::v1::image_service_server::{ImageService, ImageServiceServer};
use crate::v1::runtime_service_server::{RuntimeService, RuntimeServiceServer};

/// The biggest message to take and to send, in bytes.
///
/// The kubelet takes and sends up to 16 MiB, which is also the default here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageLimits {
    /// The biggest request taken.
    pub receive: usize,
    /// The biggest answer sent.
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
    /// What the kubelet takes and sends.
    pub const KUBELET: usize = 16 << 20;

    /// The runtime service over a handler, ready to be added to a server.
    pub fn runtime_service<T: RuntimeService>(self, handler: T) -> RuntimeServiceServer<T> {
        RuntimeServiceServer::new(handler)
            .max_decoding_message_size(self.receive)
            .max_encoding_message_size(self.send)
    }

    /// The image service over a handler, ready to be added to a server.
    pub fn image_service<T: ImageService>(self, handler: T) -> ImageServiceServer<T> {
        ImageServiceServer::new(handler)
            .max_decoding_message_size(self.receive)
            .max_encoding_message_size(self.send)
    }

    /// The service `orlop.v1.Inspection` on `handler`.
    pub fn inspection<T: Inspection>(self, handler: T) -> InspectionServer<T> {
        InspectionServer::new(handler)
            .max_decoding_message_size(self.receive)
            .max_encoding_message_size(self.send)
    }

    /// The `orlop.v1` image service over a handler, ready to be added to a server.
    pub fn images<T: Images>(self, handler: T) -> ImagesServer<T> {
        ImagesServer::new(handler)
            .max_decoding_message_size(self.receive)
            .max_encoding_message_size(self.send)
    }

    /// The `orlop.v1` service of networks over a handler, ready to be added to a server.
    pub fn networks<T: Networks>(self, handler: T) -> NetworksServer<T> {
        NetworksServer::new(handler)
            .max_decoding_message_size(self.receive)
            .max_encoding_message_size(self.send)
    }

    /// The `orlop.v1` service of containers over a handler, ready to be added to a server.
    pub fn containers<T: Containers>(self, handler: T) -> ContainersServer<T> {
        ContainersServer::new(handler)
            .max_decoding_message_size(self.receive)
            .max_encoding_message_size(self.send)
    }
}
