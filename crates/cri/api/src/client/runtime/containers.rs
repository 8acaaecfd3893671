//! Container calls of the runtime client.

use std::time::Duration;

use super::RuntimeClient;
use crate::client::call::{list, unary};
use crate::client::{ClientError, validate};
use crate::{Rpc, v1};

impl RuntimeClient {
    /// Creates a container in a pod and returns its id.
    pub async fn create_container(
        &self,
        pod: &str,
        config: v1::ContainerConfig,
        pod_config: v1::PodSandboxConfig,
    ) -> Result<String, ClientError> {
        let message = v1::CreateContainerRequest {
            pod_sandbox_id: pod.to_owned(),
            config: Some(config),
            sandbox_config: Some(pod_config),
        };
        let usual = self.caller.usual();
        let answer = unary!(self.create_container as CreateContainer within usual, message)?;
        validate::filled(Rpc::CreateContainer, "container_id", answer.container_id)
    }

    /// Starts a created container.
    pub async fn start_container(&self, id: &str) -> Result<(), ClientError> {
        let message = v1::StartContainerRequest {
            container_id: id.to_owned(),
        };
        unary!(self.start_container as StartContainer within self.caller.usual(), message)?;
        Ok(())
    }

    /// Stops a container, by force after `grace` (whole seconds). The default deadline is added to `grace`.
    pub async fn stop_container(&self, id: &str, grace: Duration) -> Result<(), ClientError> {
        let message = v1::StopContainerRequest {
            container_id: id.to_owned(),
            timeout: i64::try_from(grace.as_secs()).unwrap_or(i64::MAX),
        };
        unary!(self.stop_container as StopContainer within self.caller.usual_and(grace), message)?;
        self.quiet.forget(id);
        Ok(())
    }

    /// Removes a container, by force if it runs.
    pub async fn remove_container(&self, id: &str) -> Result<(), ClientError> {
        let message = v1::RemoveContainerRequest {
            container_id: id.to_owned(),
        };
        unary!(self.remove_container as RemoveContainer within self.caller.usual(), message)?;
        self.quiet.forget(id);
        Ok(())
    }

    /// Lists the containers that match the filter.
    pub async fn list_containers(
        &self,
        filter: Option<v1::ContainerFilter>,
    ) -> Result<Vec<v1::Container>, ClientError> {
        list!(self, stream_containers(StreamContainers, StreamContainersRequest, containers)
            or list_containers(ListContainers, ListContainersRequest, containers), filter)
    }

    /// Returns the full status of a container; its `status` is checked to be complete.
    pub async fn container_status(
        &self,
        id: &str,
        verbose: bool,
    ) -> Result<v1::ContainerStatusResponse, ClientError> {
        let message = v1::ContainerStatusRequest {
            container_id: id.to_owned(),
            verbose,
        };
        let usual = self.caller.usual();
        let answer = unary!(self.container_status as ContainerStatus within usual, message)
            .and_then(|answer| validate::container(answer.status.as_ref()).map(|()| answer));
        self.note(id, answer)
    }

    /// Updates the limits of a container.
    pub async fn update_container_resources(
        &self,
        message: v1::UpdateContainerResourcesRequest,
    ) -> Result<(), ClientError> {
        let usual = self.caller.usual();
        unary!(self.update_container_resources as UpdateContainerResources within usual, message)?;
        Ok(())
    }

    /// Makes the runtime reopen a container's log after a rotation.
    pub async fn reopen_container_log(&self, id: &str) -> Result<(), ClientError> {
        let message = v1::ReopenContainerLogRequest {
            container_id: id.to_owned(),
        };
        unary!(self.reopen_container_log as ReopenContainerLog within self.caller.usual(), message)?;
        Ok(())
    }

    /// Checkpoints a running container to an archive. The default deadline applies if the timeout is missing or
    /// shorter.
    pub async fn checkpoint_container(
        &self,
        id: &str,
        location: &str,
        timeout: Option<Duration>,
    ) -> Result<(), ClientError> {
        let message = v1::CheckpointContainerRequest {
            container_id: id.to_owned(),
            location: location.to_owned(),
            timeout: timeout.map_or(0, |timeout| {
                i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX)
            }),
        };
        let deadline = self.caller.usual().max(timeout);
        unary!(self.checkpoint_container as CheckpointContainer within deadline, message)?;
        Ok(())
    }
}
