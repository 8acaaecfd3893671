//! The client of the runtime service.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tonic::transport::Channel;

use crate::Endpoint;
use crate::client::call::Caller;
use crate::client::{ClientError, ClientOptions, Connection, Quiet};
use crate::v1::runtime_service_client::RuntimeServiceClient;

/// The client of the runtime service. Cheap to clone; clones share one connection.
#[derive(Debug, Clone)]
pub struct RuntimeClient {
    pub(super) client: RuntimeServiceClient<Channel>,
    pub(super) caller: Caller,
    pub(super) streaming: Arc<AtomicBool>,
    pub(super) quiet: Arc<Quiet>,
}

impl RuntimeClient {
    pub(crate) fn new(client: RuntimeServiceClient<Channel>, caller: Caller) -> Self {
        let streaming = Arc::new(AtomicBool::new(caller.streaming_lists));
        Self {
            client,
            caller,
            streaming,
            quiet: Arc::default(),
        }
    }

    /// Connects and checks that a runtime answers.
    pub async fn connect(endpoint: Endpoint, options: ClientOptions) -> Result<Self, ClientError> {
        let client = Connection::new(endpoint, options).runtime();
        client.version().await?;
        Ok(client)
    }

    /// Logs an error about an object, unless it was logged recently.
    pub(super) fn note<T>(
        &self,
        object: &str,
        result: Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        match &result {
            Ok(_) => self.quiet.forget(object),
            Err(error) => {
                if self.quiet.worth_saying(object, &error.to_string()) {
                    tracing::warn!(object, %error, "cannot get the status");
                }
            }
        }
        result
    }
}
