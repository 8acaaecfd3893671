//! Calls of task and sandbox services, over ttrpc or gRPC.

use std::time::Duration;

use orlop_containerd_api::Message;

use crate::connect::connect;
use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::grpc;

/// A connection for sequential calls.
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
        connected.map_err(unreached(endpoint))
    }

    /// Calls a method and waits for its response; without a limit it waits forever.
    pub(crate) fn call<R: Message + Default>(
        &mut self,
        service: &str,
        method: &str,
        request: &impl Message,
        limit: Option<Duration>,
    ) -> Result<R> {
        let request = request.encode_to_vec();
        let response = match self {
            Self::Ttrpc(client) => client.call(service, method, &request, limit)?,
            Self::Grpc(client) => client.call(service, method, &request, limit)?,
        };
        decode(&response, method)
    }
}

/// A bidirectional streaming call.
#[derive(Debug)]
pub(crate) enum Stream {
    Ttrpc(orlop_ttrpc::Stream),
    Grpc(Box<grpc::Stream>),
}

/// Decodes a response. It is at most 4 MiB long, and its memory is proportional to that.
fn decode<R: Message + Default>(response: &[u8], method: &str) -> Result<R> {
    R::decode(response).map_err(|_| Error::Garbled(format!("the response to {method}")))
}

impl Stream {
    pub(crate) fn open(endpoint: &Endpoint, service: &str, method: &str) -> Result<Self> {
        let socket = connect(endpoint).map_err(unreached(endpoint))?;
        if endpoint.grpc {
            let stream = grpc::Stream::open(socket, service, method)?;
            return Ok(Self::Grpc(Box::new(stream)));
        }
        let stream = orlop_ttrpc::Stream::open(socket, service, method)?;
        Ok(Self::Ttrpc(stream))
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, message: &impl Message) -> Result<()> {
        let message = message.encode_to_vec();
        match self {
            Self::Ttrpc(stream) => Ok(stream.send(&message)?),
            Self::Grpc(stream) => stream.send(&message),
        }
    }

    /// Ends the sending direction.
    pub(crate) fn close(&mut self) -> Result<()> {
        match self {
            Self::Ttrpc(stream) => Ok(stream.close()?),
            Self::Grpc(stream) => stream.close(),
        }
    }

    /// Waits for the next message; `None` at the end of the stream.
    pub(crate) fn receive<M: Message + Default>(
        &mut self,
        limit: Option<Duration>,
    ) -> Result<Option<M>> {
        let message = match self {
            Self::Ttrpc(stream) => stream.receive(limit)?,
            Self::Grpc(stream) => stream.receive(limit)?,
        };
        let message = message.map(|message| decode(&message, "a streaming call"));
        message.transpose()
    }

    /// Drives the connection while nothing is sent.
    pub(crate) fn idle(&mut self) {
        if let Self::Grpc(stream) = self {
            stream.idle();
        }
    }
}

fn unreached(endpoint: &Endpoint) -> impl FnOnce(std::io::Error) -> Error {
    let doing = format!("connecting to {}", endpoint.place());
    |source| Error::Io { doing, source }
}
