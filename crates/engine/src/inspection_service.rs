//! The service `orlop.v1.Inspection`, each call handed to the file in `rpc_inspection/` that bears
//! its name.

use orlop_cri::inspection::inspection_server::Inspection;
use orlop_cri::inspection::{
    ExamineRequest, ExamineResponse, GetStateRequest, GetStateResponse, ListTracesRequest,
    ListTracesResponse,
};
use tonic::{Request, Response, Status};

use crate::engine::Engine;
use crate::error::status;
use crate::rpc_inspection::{examine, get_state};
use crate::timeline;

#[tonic::async_trait]
impl Inspection for Engine {
    async fn list_traces(
        &self,
        request: Request<ListTracesRequest>,
    ) -> Result<Response<ListTracesResponse>, Status> {
        let answer = timeline::answer(&self.traces, &request.into_inner());
        Ok(Response::new(answer))
    }

    async fn get_state(
        &self,
        _: Request<GetStateRequest>,
    ) -> Result<Response<GetStateResponse>, Status> {
        Ok(Response::new(get_state::call(self)))
    }

    async fn examine(
        &self,
        request: Request<ExamineRequest>,
    ) -> Result<Response<ExamineResponse>, Status> {
        let answer = examine::call(self, request.into_inner()).await;
        answer.map(Response::new).map_err(|error| status(&error))
    }
}
