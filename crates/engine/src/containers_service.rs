//! The service `orlop.v1.Containers`, each call handed to the file in `rpc_containers/` that
//! bears its name.

use orlop_cri::extensions::containers_server::Containers;
use orlop_cri::extensions::{ListChangesRequest, ListChangesResponse};
use tonic::{Request, Response, Status};

use crate::engine::Engine;
use crate::error::status;
use crate::rpc_containers::list_changes;
use crate::service::Answers;

#[tonic::async_trait]
impl Containers for Engine {
    type ListChangesStream = Answers<ListChangesResponse>;

    async fn list_changes(
        &self,
        request: Request<ListChangesRequest>,
    ) -> Result<Response<Self::ListChangesStream>, Status> {
        let answer = list_changes::call(self, &request.into_inner());
        answer.map(Response::new).map_err(|error| status(&error))
    }
}
