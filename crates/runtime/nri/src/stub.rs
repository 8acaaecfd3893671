//! A plugin's side of NRI.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use prost::Message as _;
use tokio::net::UnixStream;

use crate::connection::{CallError, Connection, Serve, Side, Status};
use crate::plugin::{SERVICE, VERSION};
use crate::register::RUNTIME_SERVICE;
use crate::v1alpha1::{
    ContainerEviction, ContainerUpdate, RegisterPluginRequest, UpdateContainersRequest,
    UpdateContainersResponse,
};

/// Time limit of calls to the runtime, which may take as long as its own operations.
const LIMIT: Duration = Duration::from_mins(1);

/// Handler of the runtime's calls to a plugin.
pub trait Answer: Send + Sync + 'static {
    /// Handles the call of a method, and returns the encoded response.
    fn answer(&self, method: String, request: Bytes) -> BoxFuture<'_, Result<Vec<u8>, Status>>;
}

/// A plugin's connection to the runtime.
#[derive(Debug, Clone)]
pub struct Stub {
    connection: Connection,
}

impl Stub {
    /// Connects to the runtime's socket and registers.
    pub async fn connect(
        socket: &Path,
        (index, name): (&str, &str),
        plugin: Arc<dyn Answer>,
    ) -> Result<Self, CallError> {
        let socket = UnixStream::connect(socket).await;
        let socket = socket.map_err(|error| CallError::Closed(error.to_string()))?;
        Self::register(socket, (index, name), plugin).await
    }

    /// Registers on a connected socket.
    pub async fn register(
        socket: UnixStream,
        (index, name): (&str, &str),
        plugin: Arc<dyn Answer>,
    ) -> Result<Self, CallError> {
        let connection = Connection::open(socket, Side::Plugin, Arc::new(Desk(plugin)));
        let request = RegisterPluginRequest {
            plugin_name: name.to_owned(),
            plugin_idx: index.to_owned(),
            nri_version: VERSION.to_owned(),
        };
        let request = request.encode_to_vec();
        connection
            .call(RUNTIME_SERVICE, "RegisterPlugin", request, LIMIT)
            .await?;
        Ok(Self { connection })
    }

    /// Requests updates and evictions of containers; returns the updates that failed.
    pub async fn update(
        &self,
        update: Vec<ContainerUpdate>,
        evict: Vec<ContainerEviction>,
    ) -> Result<Vec<ContainerUpdate>, CallError> {
        let request = UpdateContainersRequest { update, evict }.encode_to_vec();
        let answer = self
            .connection
            .call(RUNTIME_SERVICE, "UpdateContainers", request, LIMIT)
            .await?;
        let answer = UpdateContainersResponse::decode(answer)
            .map_err(|error| CallError::Rubbish(error.to_string()))?;
        Ok(answer.failed)
    }

    /// Closes the connection.
    pub fn close(&self) {
        self.connection.close("the plugin disconnected");
    }

    /// Waits until the connection is closed, and returns the reason.
    pub async fn closed(&self) -> String {
        self.connection.closed().await
    }
}

struct Desk(Arc<dyn Answer>);

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Desk")
    }
}

impl Serve for Desk {
    fn serve(
        &self,
        service: String,
        method: String,
        payload: Bytes,
    ) -> BoxFuture<'_, Result<Vec<u8>, Status>> {
        if service != SERVICE {
            return Box::pin(async move { Err(Status::unimplemented(&service, &method)) });
        }
        self.0.answer(method, payload)
    }
}
