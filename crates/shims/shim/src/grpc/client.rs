//! gRPC client for one call at a time.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use h2::SendStream;
use h2::client::{ResponseFuture, SendRequest};
use http::{HeaderMap, Request};
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::error::{Error, Result};
use crate::namespace::NAMESPACE;

/// The length of a message's header: a flag and the length.
pub(super) const HEAD: usize = 5;
/// Maximum size of a message.
pub(super) const LARGEST: usize = 4 << 20;
/// Timeout of connecting.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// A connection for sequential calls. It is only driven during a call.
#[derive(Debug)]
pub(crate) struct Client {
    reactor: Runtime,
    requests: SendRequest<Bytes>,
}

impl Client {
    pub(crate) fn of(socket: std::os::unix::net::UnixStream) -> io::Result<Self> {
        let (reactor, requests) = connect(socket)?;
        Ok(Self { reactor, requests })
    }

    pub(crate) fn call(
        &mut self,
        service: &str,
        method: &str,
        payload: &[u8],
        limit: Option<Duration>,
    ) -> Result<Vec<u8>> {
        let requests = self.requests.clone();
        let call = call(requests, service, method, payload);
        self.reactor.block_on(async {
            match limit {
                Some(limit) => timeout(limit, call).await.unwrap_or_else(|_| {
                    Err(Error::Failed(format!("{method} timed out after {limit:?}")))
                }),
                None => call.await,
            }
        })
    }
}

/// Opens a connection and spawns the task that drives it.
pub(super) fn connect(
    socket: std::os::unix::net::UnixStream,
) -> io::Result<(Runtime, SendRequest<Bytes>)> {
    let reactor = Builder::new_current_thread().enable_all().build()?;
    socket.set_nonblocking(true)?;
    let connect = async {
        let socket = UnixStream::from_std(socket)?;
        let (requests, connection) = h2::client::handshake(socket)
            .await
            .map_err(io::Error::other)?;
        tokio::spawn(async {
            // The call reports the end of the connection.
            let _ = connection.await;
        });
        Ok::<_, io::Error>(requests)
    };
    let requests = reactor.block_on(async { timeout(CONNECT_LIMIT, connect).await })??;
    Ok((reactor, requests))
}

async fn call(
    requests: SendRequest<Bytes>,
    service: &str,
    method: &str,
    payload: &[u8],
) -> Result<Vec<u8>> {
    let failed = failed(method);
    let (response, mut body) = begin(requests, service, method).await?;
    body.send_data(framed(payload), true).map_err(&failed)?;
    let (head, mut body) = response.await.map_err(&failed)?.into_parts();
    let mut answer = Vec::new();
    while let Some(bytes) = body.data().await {
        let bytes = bytes.map_err(&failed)?;
        // If this fails, the sender only waits for its window.
        let _ = body.flow_control().release_capacity(bytes.len());
        if answer.len() + bytes.len() > HEAD + LARGEST {
            return Err(Error::Failed(format!(
                "the response to {method} is larger than 4 MiB"
            )));
        }
        answer.extend(&bytes);
    }
    let trailers = body.trailers().await.map_err(&failed)?;
    // A response without a message has its status in the headers.
    refusal(method, trailers.as_ref().unwrap_or(&head.headers))?;
    let message = message_in(&answer).map(<[u8]>::to_vec);
    message.ok_or_else(|| garbled(method))
}

/// Starts a call.
pub(super) async fn begin(
    requests: SendRequest<Bytes>,
    service: &str,
    method: &str,
) -> Result<(ResponseFuture, SendStream<Bytes>)> {
    let request = Request::post(format!("http://localhost/{service}/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("containerd-namespace", NAMESPACE)
        .body(())
        .map_err(|error| Error::Failed(format!("calling {method}: {error}")))?;
    let mut requests = requests.ready().await.map_err(failed(method))?;
    requests
        .send_request(request, false)
        .map_err(failed(method))
}

pub(super) fn failed(method: &str) -> impl Fn(h2::Error) -> Error + use<> {
    let doing = format!("calling {method}");
    move |error| Error::Io {
        doing: doing.clone(),
        source: io::Error::other(error),
    }
}

pub(super) fn garbled(method: &str) -> Error {
    Error::Garbled(format!("the response to {method}"))
}

/// Encodes a message with its header, uncompressed.
pub(super) fn framed(payload: &[u8]) -> Bytes {
    let mut message = Vec::with_capacity(HEAD + payload.len());
    message.push(0);
    message.extend((payload.len() as u32).to_be_bytes());
    message.extend(payload);
    message.into()
}

/// Returns an error if the status is not OK.
pub(super) fn refusal(method: &str, status: &HeaderMap) -> Result<()> {
    match code(status).ok_or_else(|| garbled(method))? {
        0 => Ok(()),
        code => Err(Error::Refused {
            method: method.to_owned(),
            code,
            message: status
                .get("grpc-message")
                .map(|said| plain(said.as_bytes()))
                .unwrap_or_default(),
        }),
    }
}

/// Decodes a percent-encoded header value.
fn plain(escaped: &[u8]) -> String {
    let bytes = percent_encoding::percent_decode(escaped);
    bytes.decode_utf8_lossy().into_owned()
}

fn code(status: &HeaderMap) -> Option<i32> {
    status.get("grpc-status")?.to_str().ok()?.parse().ok()
}

/// Returns the single message of a response; it is uncompressed because no compression was offered.
fn message_in(answer: &[u8]) -> Option<&[u8]> {
    let (head, message) = answer.split_at_checked(HEAD)?;
    let (flag, length) = head.split_first()?;
    let length = u32::from_be_bytes(length.try_into().ok()?) as usize;
    (*flag == 0 && length == message.len()).then_some(message)
}

#[cfg(test)]
mod tests {
    use super::{message_in, plain};

    #[test]
    fn what_is_escaped_is_told_plainly() {
        for (escaped, said) in [
            ("no%20room%21", "no room!"),
            ("100%", "100%"),
            ("%zz%4", "%zz%4"),
            ("%c3%a4", "ä"),
        ] {
            assert_eq!(plain(escaped.as_bytes()), said);
        }
    }

    #[test]
    fn only_one_whole_message_is_an_answer() {
        assert_eq!(message_in(&[0, 0, 0, 0, 2, 7, 8]), Some(&[7, 8][..]));
        assert_eq!(message_in(&[0, 0, 0, 0, 0]), Some(&[][..]));
        for garbled in [
            &[][..],
            &[0, 0, 0, 0],
            &[1, 0, 0, 0, 1, 7],
            &[0, 0, 0, 0, 2, 7],
            &[0, 0, 0, 0, 1, 7, 8],
            &[0, 0xff, 0xff, 0xff, 0xff, 7],
        ] {
            assert_eq!(message_in(garbled), None, "{garbled:?}");
        }
    }
}
