//! What the daemon itself says of a start.

use std::time::Duration;

use orlop_cri_api::inspection::ListTracesRequest;
use orlop_cri_api::inspection::inspection_client::InspectionClient;
use orlop_testkit::Cri;
use tonic::Status;

/// How long a step of a pod's start took.
pub(crate) async fn step(cri: &Cri, pod_id: &str, name: &str) -> Result<Duration, Status> {
    let request = ListTracesRequest {
        pod_sandbox_id: pod_id.to_owned(),
        ..ListTracesRequest::default()
    };
    let answer = InspectionClient::new(cri.channel())
        .list_traces(request)
        .await?;
    let traces = answer.into_inner().traces;
    let steps = traces
        .iter()
        .flat_map(|trace| &trace.calls)
        .flat_map(|call| &call.steps);
    let of_name = steps.filter(|step| step.name == name);
    Ok(Duration::from_micros(
        of_name.map(|step| step.took_us).sum(),
    ))
}
