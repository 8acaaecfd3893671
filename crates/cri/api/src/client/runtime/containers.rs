//! Containers.

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

    /// Stops a container, by force when `grace` (whole seconds) is over. The usual time to answer
    /// comes on top.
    pub async fn stop_container(&self, id: &str, grace: Duration) -> Result<(), ClientError> {
        let message = v1::StopContainerRequest {
            container_id: id.to_owned(),
            timeout: i64::try_from(grace.as_secs()).unwrap_or(i64::MAX),
        };
        unary!(self.stop_container as StopContainer within self.caller.usual_and(grace), message)?;
        self.quiet.forget(id);
        Ok(())
    }

    /// Removes a container, a running one by force.
    pub async fn remove_container(&self, id: &str) -> Result<(), ClientError> {
        let message = v1::RemoveContainerRequest {
            container_id: id.to_owned(),
        };
        unary!(self.remove_container as RemoveContainer within self.caller.usual(), message)?;
        self.quiet.forget(id);
        Ok(())
    }

    /// The containers that the filter lets through.
    pub async fn list_containers(
        &self,
        filter: Option<v1::ContainerFilter>,
    ) -> Result<Vec<v1::Container>, ClientError> {
        list!(self, stream_containers(StreamContainers, StreamContainersRequest, containers)
            or list_containers(ListContainers, ListContainersRequest, containers), filter)
    }

    /// One container in full; its `status` is there and complete.
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

    /// Changes the limits of a container.
    pub async fn update_container_resources(
        &self,
        message: v1::UpdateContainerResourcesRequest,
    ) -> Result<(), ClientError> {
        let usual = self.caller.usual();
        unary!(self.update_container_resources as UpdateContainerResources within usual, message)?;
        Ok(())
    }

    /// Opens a container's log anew after a rotation.
    pub async fn reopen_container_log(&self, id: &str) -> Result<(), ClientError> {
        let message = v1::ReopenContainerLogRequest {
            container_id: id.to_owned(),
        };
        unary!(self.reopen_container_log as ReopenContainerLog within self.caller.usual(), message)?;
        Ok(())
    }

    /// Writes a running container to an archive. Without a timeout, or with one shorter than the
    /// usual time, it is given the usual time.
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
