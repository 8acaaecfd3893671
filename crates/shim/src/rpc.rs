//! Calls of whoever serves tasks and sandboxes, by either protocol.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::grpc;
use crate::task::Endpoint;

/// A connection on which calls are made one after the other.
#[derive(Debug)]
pub(crate) enum Client {
    Ttrpc(orlop_ttrpc::Client),
    Grpc(grpc::Client),
}

impl Client {
    pub(crate) fn connect(endpoint: &Endpoint) -> Result<Self> {
        let socket = &endpoint.socket;
        let client = if endpoint.grpc {
            grpc::Client::connect(socket).map(Self::Grpc)
        } else {
            orlop_ttrpc::Client::connect(socket).map(Self::Ttrpc)
        };
        client.map_err(Error::file("connecting to", socket))
    }

    /// Calls a method and waits for its answer: for ever where there is no limit.
    pub(crate) fn call(
        &mut self,
        service: &str,
        method: &str,
        payload: &[u8],
        limit: Option<Duration>,
    ) -> Result<Vec<u8>> {
        match self {
            Self::Ttrpc(client) => Ok(client.call(service, method, payload, limit)?),
            Self::Grpc(client) => client.call(service, method, payload, limit),
        }
    }
}
