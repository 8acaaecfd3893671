//! The gRPC services that both backends have.

use orlop_cri_api::server::MessageLimits;
use orlop_cri_api::v1::image_service_server::ImageService;
use orlop_cri_api::v1::runtime_service_server::RuntimeService;
use tonic::service::Routes;

/// The two CRI services of one implementation.
pub(super) fn routes<S>(service: S, limits: MessageLimits) -> Routes
where
    S: RuntimeService + ImageService + Clone,
{
    Routes::new(limits.runtime_service(service.clone())).add_service(limits.image_service(service))
}
