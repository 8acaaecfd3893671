//! Bidirectional ttrpc calls over a plugin's socket.
//!
//! Both sides use this module, so that plugins can be written with this crate, and tested against it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use orlop_ttrpc::{Request, Response, Status as WireStatus};
use parking_lot::Mutex;
use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::frame::{Decoder, Kind, Line, MAX_MESSAGE, Message, encode};

/// Number of messages that are queued for writing.
const QUEUE: usize = 32;

/// Number of the peer's calls that are served concurrently; more are rejected.
const MAX_SERVED: usize = 16;

/// Time limit for the peer to read a message, after which the connection is closed.
const WRITE_LIMIT: Duration = Duration::from_secs(10);

/// The end of the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The runtime's end.
    Runtime,
    /// The plugin's end.
    Plugin,
}

impl Side {
    fn calls_on(self) -> Line {
        match self {
            Self::Runtime => Line::ToPlugin,
            Self::Plugin => Line::ToRuntime,
        }
    }
}

/// Handler of the peer's calls.
pub trait Serve: Send + Sync + 'static {
    /// Handles the call of a method, identified by its service's full name and its own name.
    fn serve(
        &self,
        service: String,
        method: String,
        payload: Bytes,
    ) -> BoxFuture<'_, Result<Vec<u8>, Status>>;
}

/// An error response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Code of the error.
    pub code: StatusCode,
    /// Message for users.
    pub message: String,
}

/// The relevant status codes, with the numbers of gRPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusCode {
    /// Any other error.
    Unknown,
    /// The argument is invalid.
    InvalidArgument,
    /// Too many calls at once, or a response that is too large.
    ResourceExhausted,
    /// The method does not exist.
    Unimplemented,
}

impl StatusCode {
    fn from_number(number: i32) -> Self {
        match number {
            3 => Self::InvalidArgument,
            8 => Self::ResourceExhausted,
            12 => Self::Unimplemented,
            _ => Self::Unknown,
        }
    }

    fn number(self) -> i32 {
        match self {
            Self::Unknown => 2,
            Self::InvalidArgument => 3,
            Self::ResourceExhausted => 8,
            Self::Unimplemented => 12,
        }
    }
}

impl Status {
    /// Creates a status from a code and a message.
    pub fn new(code: StatusCode, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, message }
    }

    /// Returns the status for a method that does not exist.
    pub fn unimplemented(service: &str, method: &str) -> Self {
        let message = format!("/{service}/{method} is not implemented");
        Self::new(StatusCode::Unimplemented, message)
    }
}

/// Error of a call.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallError {
    /// The connection is closed.
    #[error("the connection is closed: {0}")]
    Closed(String),
    /// The peer did not answer in time.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// The response could not be decoded.
    #[error("cannot decode the response: {0}")]
    Rubbish(String),
    /// The request is too large.
    #[error("cannot send a message of {0} bytes; the limit is {MAX_MESSAGE}")]
    TooLarge(usize),
    /// The peer returned an error.
    #[error("{}", .0.message)]
    Refused(Status),
}

impl CallError {
    /// Whether the connection cannot be used any more.
    pub fn is_fatal(&self) -> bool {
        matches!(self, Self::Closed(_) | Self::Timeout(_) | Self::Rubbish(_))
    }

    /// Whether the peer does not implement the method.
    pub fn is_unimplemented(&self) -> bool {
        matches!(self, Self::Refused(status) if status.code == StatusCode::Unimplemented)
    }

    /// Label value for metrics.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Closed(_) => "closed",
            Self::Timeout(_) => "timeout",
            Self::Rubbish(_) => "rubbish",
            Self::TooLarge(_) => "too_large",
            Self::Refused(_) => "refused",
        }
    }
}

/// A connection between the runtime and a plugin. Cheap to clone; all clones share it.
#[derive(Clone)]
pub struct Connection(Arc<Inner>);

struct Inner {
    side: Side,
    out: mpsc::Sender<Bytes>,
    pending: Mutex<Pending>,
    closed: CancellationToken,
    reason: OnceLock<String>,
}

#[derive(Default)]
struct Pending {
    calls: u32,
    waiting: HashMap<u32, oneshot::Sender<Bytes>>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("side", &self.0.side)
            .field("closed", &self.0.closed.is_cancelled())
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// Takes over a socket until either side closes it.
    pub fn open(socket: UnixStream, side: Side, serve: Arc<dyn Serve>) -> Self {
        let (read, write) = socket.into_split();
        let (out, queue) = mpsc::channel(QUEUE);
        let connection = Self(Arc::new(Inner {
            side,
            out,
            pending: Mutex::default(),
            closed: CancellationToken::new(),
            reason: OnceLock::new(),
        }));
        tokio::spawn(connection.clone().write(write, queue));
        tokio::spawn(connection.clone().read(read, serve));
        connection
    }

    /// Calls the peer, and waits for the response for at most `limit`.
    pub async fn call(
        &self,
        service: &str,
        method: &str,
        payload: Vec<u8>,
        limit: Duration,
    ) -> Result<Bytes, CallError> {
        let request = Request {
            service: service.to_owned(),
            method: method.to_owned(),
            payload,
            timeout_nano: i64::try_from(limit.as_nanos()).unwrap_or(i64::MAX),
            metadata: Vec::new(),
        };
        let size = request.encoded_len();
        if size > MAX_MESSAGE {
            return Err(CallError::TooLarge(size));
        }
        let (stream, answer) = self.expect_answer();
        let _forget = Forget(self, stream);
        let message = encode(&Message {
            line: self.0.side.calls_on(),
            stream,
            kind: Kind::Request,
            payload: request.encode_to_vec().into(),
        });
        let exchange = async {
            self.0.out.send(message).await.map_err(|_| self.gone())?;
            answer.await.map_err(|_| self.gone())
        };
        let exchange = async {
            tokio::select! {
                answer = exchange => answer,
                () = self.0.closed.cancelled() => Err(self.gone()),
            }
        };
        let answer = timeout(limit, exchange).await;
        let answer = answer.map_err(|_| CallError::Timeout(limit))??;
        let response =
            Response::decode(answer).map_err(|error| CallError::Rubbish(error.to_string()))?;
        match response.status {
            Some(WireStatus { code, message }) if code != 0 => {
                let code = StatusCode::from_number(code);
                Err(CallError::Refused(Status { code, message }))
            }
            _ => Ok(response.payload.into()),
        }
    }

    /// Closes the connection; the first reason is kept.
    pub fn close(&self, reason: impl Into<String>) {
        let _ = self.0.reason.set(reason.into());
        self.0.closed.cancel();
        self.pending().waiting.clear();
    }

    /// Waits until the connection is closed, and returns the reason.
    pub async fn closed(&self) -> String {
        self.0.closed.cancelled().await;
        self.0.reason.get().cloned().unwrap_or_default()
    }

    fn gone(&self) -> CallError {
        CallError::Closed(self.0.reason.get().cloned().unwrap_or_default())
    }

    fn pending(&self) -> parking_lot::MutexGuard<'_, Pending> {
        self.0.pending.lock()
    }

    fn expect_answer(&self) -> (u32, oneshot::Receiver<Bytes>) {
        let (tell, answer) = oneshot::channel();
        let mut pending = self.pending();
        // Calls use odd stream numbers.
        let stream = pending.calls.wrapping_mul(2) | 1;
        pending.calls = pending.calls.wrapping_add(1);
        pending.waiting.insert(stream, tell);
        (stream, answer)
    }

    async fn write(self, mut socket: OwnedWriteHalf, mut queue: mpsc::Receiver<Bytes>) {
        loop {
            let message = tokio::select! {
                () = self.0.closed.cancelled() => break,
                message = queue.recv() => message,
            };
            let Some(message) = message else { break };
            let written = tokio::select! {
                () = self.0.closed.cancelled() => break,
                written = timeout(WRITE_LIMIT, socket.write_all(&message)) => written,
            };
            match written {
                Ok(Ok(())) => {}
                Ok(Err(error)) => self.close(format!("cannot write to the connection: {error}")),
                Err(_) => self.close(format!("the peer did not read for {WRITE_LIMIT:?}")),
            }
        }
        let _ = timeout(WRITE_LIMIT, socket.shutdown()).await;
    }

    async fn read(self, mut socket: OwnedReadHalf, serve: Arc<dyn Serve>) {
        let mut decoder = Decoder::default();
        let served = Arc::new(Semaphore::new(MAX_SERVED));
        loop {
            let read = tokio::select! {
                () = self.0.closed.cancelled() => return,
                read = socket.read_buf(decoder.buffer()) => read,
            };
            match read {
                Ok(0) => return self.close("the peer closed the connection"),
                Ok(_) => {}
                Err(error) => {
                    return self.close(format!("cannot read from the connection: {error}"));
                }
            }
            loop {
                match decoder.next() {
                    Ok(Some(message)) => self.take(message, &serve, &served),
                    Ok(None) => break,
                    Err(rubbish) => {
                        return self.close(format!("the peer sent an invalid message: {rubbish}"));
                    }
                }
            }
        }
    }

    fn take(&self, message: Message, serve: &Arc<dyn Serve>, served: &Arc<Semaphore>) {
        let own = message.line == self.0.side.calls_on();
        match message.kind {
            // Nobody waits for a late response.
            Kind::Response if own => {
                if let Some(tell) = self.pending().waiting.remove(&message.stream) {
                    let _ = tell.send(message.payload);
                }
            }
            Kind::Request if !own => {
                let connection = self.clone();
                let (serve, permit) = (Arc::clone(serve), Arc::clone(served).try_acquire_owned());
                let Ok(permit) = permit else {
                    let full = Status::new(StatusCode::ResourceExhausted, "too many calls at once");
                    // If the queue is full, the peer does not read either.
                    let _ = self.0.out.try_send(answer(&message, Err(full)));
                    return;
                };
                tokio::spawn(async move {
                    let _permit = permit;
                    tokio::select! {
                        () = connection.0.closed.cancelled() => {}
                        () = connection.answer(message, &*serve) => {}
                    }
                });
            }
            _ => {}
        }
    }

    async fn answer(&self, message: Message, serve: &dyn Serve) {
        let result = match Request::decode(message.payload.clone()) {
            Ok(request) => {
                let payload = request.payload.into();
                serve.serve(request.service, request.method, payload).await
            }
            Err(error) => Err(Status::new(StatusCode::InvalidArgument, error.to_string())),
        };
        let _ = self.0.out.send(answer(&message, result)).await;
    }
}

fn answer(to: &Message, result: Result<Vec<u8>, Status>) -> Bytes {
    let result = match result {
        Ok(payload) if payload.len() > MAX_MESSAGE - 64 => Err(Status::new(
            StatusCode::ResourceExhausted,
            "the response is too large",
        )),
        other => other,
    };
    let response = match result {
        Ok(payload) => Response {
            status: None,
            payload,
        },
        Err(status) => Response {
            status: Some(WireStatus {
                code: status.code.number(),
                message: status.message,
            }),
            payload: Vec::new(),
        },
    };
    encode(&Message {
        line: to.line,
        stream: to.stream,
        kind: Kind::Response,
        payload: response.encode_to_vec().into(),
    })
}

/// Guard that removes a call when its caller stops waiting.
struct Forget<'c>(&'c Connection, u32);

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.0.pending().waiting.remove(&self.1);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Returns the name of the called method, after a pause for `slow`.
    struct Echo;

    impl Serve for Echo {
        fn serve(
            &self,
            service: String,
            method: String,
            payload: Bytes,
        ) -> BoxFuture<'_, Result<Vec<u8>, Status>> {
            Box::pin(async move {
                match method.as_str() {
                    "Echo" => Ok(payload.to_vec()),
                    "Slow" => {
                        tokio::time::sleep(Duration::from_mins(1)).await;
                        Ok(Vec::new())
                    }
                    _ => Err(Status::unimplemented(&service, &method)),
                }
            })
        }
    }

    fn pair() -> (Connection, Connection) {
        let (one, other) = UnixStream::pair().unwrap();
        (
            Connection::open(one, Side::Runtime, Arc::new(Echo)),
            Connection::open(other, Side::Plugin, Arc::new(Echo)),
        )
    }

    const LIMIT: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn both_sides_call_at_once() {
        let (runtime, plugin) = pair();
        let call = |from: Connection, byte: u8| async move {
            // Large enough for several fragments.
            let text = vec![byte; 100_000];
            let echo = from.call("s", "Echo", text.clone(), LIMIT).await.unwrap();
            assert_eq!(echo, text);
        };
        let calls = (0..8).map(|n| {
            let from = if n % 2 == 0 { &runtime } else { &plugin };
            call(from.clone(), n)
        });
        futures_util::future::join_all(calls).await;
    }

    #[tokio::test]
    async fn refusals_timeouts_and_ends_are_told_apart() {
        let (runtime, plugin) = pair();
        let missing = runtime.call("s", "Other", vec![], LIMIT).await.unwrap_err();
        assert!(
            missing.is_unimplemented() && !missing.is_fatal(),
            "{missing}"
        );
        let slow = runtime.call("s", "Slow", vec![], Duration::from_millis(30));
        assert!(matches!(slow.await.unwrap_err(), CallError::Timeout(_)));
        assert!(runtime.pending().waiting.is_empty());
        let large = runtime.call("s", "Echo", vec![0; MAX_MESSAGE], LIMIT);
        let large = large.await.unwrap_err();
        assert!(matches!(large, CallError::TooLarge(_)) && !large.is_fatal());

        let waiting = tokio::spawn({
            let runtime = runtime.clone();
            async move { runtime.call("s", "Slow", vec![], LIMIT).await }
        });
        while runtime.pending().waiting.is_empty() {
            tokio::task::yield_now().await;
        }
        plugin.close("enough");
        let error = waiting.await.unwrap().unwrap_err();
        assert!(matches!(error, CallError::Closed(_)), "{error}");
        assert_ne!(runtime.closed().await, "");
    }

    #[tokio::test]
    async fn rubbish_closes_the_connection() {
        let (one, mut other) = UnixStream::pair().unwrap();
        let runtime = Connection::open(one, Side::Runtime, Arc::new(Echo));
        other.write_all(&[0xff; 64]).await.unwrap();
        assert!(runtime.closed().await.contains("invalid message"));
        let error = runtime.call("s", "Echo", vec![], LIMIT).await.unwrap_err();
        assert!(error.is_fatal());
    }

    #[tokio::test]
    async fn more_calls_than_can_be_served_are_refused() {
        let (runtime, _plugin) = pair();
        let limit = Duration::from_secs(5);
        let mut calls: Vec<_> = (0..=MAX_SERVED)
            .map(|_| Box::pin(runtime.call("s", "Slow", vec![], limit)))
            .collect();
        let (first, _, _) = futures_util::future::select_all(calls.drain(..)).await;
        match first.unwrap_err() {
            CallError::Refused(status) => assert_eq!(status.code, StatusCode::ResourceExhausted),
            other => panic!("{other}"),
        }
    }
}
