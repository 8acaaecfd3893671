//! The service `orlop.v1.Networks`, each call handed to the file in `rpc_networks/` that bears its
//! name.

use orlop_cri::extensions::networks_server::Networks;
use orlop_cri::extensions::{
    CollectNetworkGarbageRequest, CollectNetworkGarbageResponse, ListAttachmentsRequest,
    ListAttachmentsResponse, ListNetworksRequest, ListNetworksResponse,
};
use tonic::{Request, Response, Status};

use crate::engine::Engine;
use crate::error::status;
use crate::rpc_networks::{collect_network_garbage, list_attachments, list_networks};

#[tonic::async_trait]
impl Networks for Engine {
    async fn list_networks(
        &self,
        _: Request<ListNetworksRequest>,
    ) -> Result<Response<ListNetworksResponse>, Status> {
        let answer = list_networks::call(self).await;
        answer.map(Response::new).map_err(|error| status(&error))
    }

    async fn list_attachments(
        &self,
        request: Request<ListAttachmentsRequest>,
    ) -> Result<Response<ListAttachmentsResponse>, Status> {
        let answer = list_attachments::call(self, request.into_inner()).await;
        answer.map(Response::new).map_err(|error| status(&error))
    }

    async fn collect_network_garbage(
        &self,
        request: Request<CollectNetworkGarbageRequest>,
    ) -> Result<Response<CollectNetworkGarbageResponse>, Status> {
        let answer = collect_network_garbage::call(self, request.into_inner()).await;
        answer.map(Response::new).map_err(|error| status(&error))
    }
}
