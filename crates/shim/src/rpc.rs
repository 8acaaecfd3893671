//! Calls of whoever serves tasks and sandboxes, by either protocol.

use std::time::Duration;

use crate::connect::connect;
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
        let connected = connect(endpoint).and_then(|socket| {
            if endpoint.grpc {
                grpc::Client::of(socket).map(Self::Grpc)
            } else {
                Ok(Self::Ttrpc(orlop_ttrpc::Client::of(socket)))
            }
        });
        connected.map_err(|source| Error::Io {
            doing: format!("connecting to {}", endpoint.place()),
            source,
        })
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
