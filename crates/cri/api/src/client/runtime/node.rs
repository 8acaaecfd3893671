//! Calls about the runtime itself: version, status, settings, events.

use tonic::Streaming;

use super::RuntimeClient;
use crate::client::call::unary;
use crate::client::{ClientError, validate};
use crate::{Rpc, v1};

/// The version of the runtime API that kubelets and runtimes exchange.
const KUBELET_API: &str = "0.1.0";

impl RuntimeClient {
    /// Returns the runtime's name and version; all fields are checked to be filled.
    pub async fn version(&self) -> Result<v1::VersionResponse, ClientError> {
        let message = v1::VersionRequest {
            version: KUBELET_API.to_owned(),
        };
        let answer = unary!(self.version as Version within self.caller.usual(), message)?;
        validate::version(&answer)?;
        Ok(answer)
    }

    /// Returns whether runtime and network are ready; the response contains both conditions.
    pub async fn status(&self, verbose: bool) -> Result<v1::StatusResponse, ClientError> {
        let message = v1::StatusRequest { verbose };
        let answer = unary!(self.status as Status within self.caller.usual(), message)?;
        validate::status(answer.status.as_ref())?;
        Ok(answer)
    }

    /// Returns settings that the runtime and the kubelet must share.
    pub async fn runtime_config(&self) -> Result<v1::RuntimeConfigResponse, ClientError> {
        let message = v1::RuntimeConfigRequest {};
        unary!(self.runtime_config as RuntimeConfig within self.caller.usual(), message)
    }

    /// Sends the runtime settings that only the cluster knows.
    pub async fn update_runtime_config(
        &self,
        config: v1::RuntimeConfig,
    ) -> Result<(), ClientError> {
        let message = v1::UpdateRuntimeConfigRequest {
            runtime_config: Some(config),
        };
        let usual = self.caller.usual();
        unary!(self.update_runtime_config as UpdateRuntimeConfig within usual, message)?;
        Ok(())
    }

    /// Subscribes to container events.
    pub async fn container_events(&self) -> Result<Events, ClientError> {
        let message = v1::GetEventsRequest {};
        let stream = unary!(self.get_container_events as GetContainerEvents within None, message)?;
        Ok(Events { stream })
    }
}

/// A subscription to container events. Dropping it ends the subscription.
#[derive(Debug)]
pub struct Events {
    stream: Streaming<v1::ContainerEventResponse>,
}

impl Events {
    /// Waits for the next event; `None` if the runtime has closed the stream.
    pub async fn next(&mut self) -> Result<Option<v1::ContainerEventResponse>, ClientError> {
        self.stream
            .message()
            .await
            .map_err(|status| ClientError::Call {
                rpc: Rpc::GetContainerEvents,
                status: Box::new(status),
            })
    }
}
