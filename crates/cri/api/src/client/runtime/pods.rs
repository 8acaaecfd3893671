//! Pod sandbox calls of the runtime client.

use std::time::Duration;

use super::RuntimeClient;
use crate::client::call::{list, unary};
use crate::client::{ClientError, validate};
use crate::{Rpc, v1};

impl RuntimeClient {
    /// Creates and starts a pod sandbox and returns its id; an empty `handler` is the default one. The deadline is
    /// twice the default, because network setup can be slow.
    pub async fn run_pod_sandbox(
        &self,
        config: v1::PodSandboxConfig,
        handler: &str,
    ) -> Result<String, ClientError> {
        let deadline = self.caller.usual().map(|usual| usual * 2);
        let message = v1::RunPodSandboxRequest {
            config: Some(config),
            runtime_handler: handler.to_owned(),
        };
        let answer = unary!(self.run_pod_sandbox as RunPodSandbox within deadline, message)?;
        validate::filled(Rpc::RunPodSandbox, "pod_sandbox_id", answer.pod_sandbox_id)
    }

    /// Stops a pod and all its containers.
    pub async fn stop_pod_sandbox(&self, id: &str) -> Result<(), ClientError> {
        let message = v1::StopPodSandboxRequest {
            pod_sandbox_id: id.to_owned(),
        };
        unary!(self.stop_pod_sandbox as StopPodSandbox within self.caller.usual(), message)?;
        Ok(())
    }

    /// Removes a pod and all its containers.
    pub async fn remove_pod_sandbox(&self, id: &str) -> Result<(), ClientError> {
        let message = v1::RemovePodSandboxRequest {
            pod_sandbox_id: id.to_owned(),
        };
        unary!(self.remove_pod_sandbox as RemovePodSandbox within self.caller.usual(), message)?;
        self.quiet.forget(id);
        Ok(())
    }

    /// Returns the full status of a pod; its `status` is checked to be complete.
    pub async fn pod_sandbox_status(
        &self,
        id: &str,
        verbose: bool,
    ) -> Result<v1::PodSandboxStatusResponse, ClientError> {
        let message = v1::PodSandboxStatusRequest {
            pod_sandbox_id: id.to_owned(),
            verbose,
        };
        let usual = self.caller.usual();
        let answer = unary!(self.pod_sandbox_status as PodSandboxStatus within usual, message)
            .and_then(|answer| validate::pod(answer.status.as_ref()).map(|()| answer));
        self.note(id, answer)
    }

    /// Lists the pods that match the filter.
    pub async fn list_pod_sandbox(
        &self,
        filter: Option<v1::PodSandboxFilter>,
    ) -> Result<Vec<v1::PodSandbox>, ClientError> {
        list!(self, stream_pod_sandboxes(StreamPodSandboxes, StreamPodSandboxesRequest, pod_sandboxes)
            or list_pod_sandbox(ListPodSandbox, ListPodSandboxRequest, items), filter)
    }

    /// Announces the new resource totals of a pod.
    pub async fn update_pod_sandbox_resources(
        &self,
        message: v1::UpdatePodSandboxResourcesRequest,
    ) -> Result<(), ClientError> {
        let usual = self.caller.usual();
        unary!(self.update_pod_sandbox_resources as UpdatePodSandboxResources within usual, message)?;
        Ok(())
    }

    /// Checkpoints the running containers of a pod to a directory.
    pub async fn checkpoint_pod(
        &self,
        message: v1::CheckpointPodRequest,
        timeout: Duration,
    ) -> Result<(), ClientError> {
        unary!(self.checkpoint_pod as CheckpointPod within Some(timeout), message)?;
        Ok(())
    }

    /// Creates a pod from a checkpoint.
    pub async fn restore_pod(
        &self,
        message: v1::RestorePodRequest,
        timeout: Duration,
    ) -> Result<v1::RestorePodResponse, ClientError> {
        let answer = unary!(self.restore_pod as RestorePod within Some(timeout), message)?;
        validate::present(
            Rpc::RestorePod,
            "pod_sandbox_id",
            !answer.pod_sandbox_id.is_empty(),
        )?;
        let whole = answer
            .restored_containers
            .iter()
            .all(|container| !container.name.is_empty() && !container.container_id.is_empty());
        validate::present(Rpc::RestorePod, "name or id of a container", whole)?;
        Ok(answer)
    }
}
