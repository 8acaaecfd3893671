//! What all calls have in common: a deadline, an observer, an error that says which call it was.

use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout;
use tonic::{Code, IntoRequest, Request, Response, Status};

use super::observer::Observer;
use super::options::ClientOptions;
use super::{ClientError, ConnectError};
use crate::{Endpoint, Rpc};

/// How a client calls: shared by all its methods.
#[derive(Clone)]
pub(crate) struct Caller {
    endpoint: Endpoint,
    timeout: Duration,
    observer: Option<Arc<dyn Observer>>,
    pub(super) streaming_lists: bool,
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caller")
            .field("endpoint", &self.endpoint)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl Caller {
    pub(super) fn new(endpoint: Endpoint, options: &ClientOptions) -> Self {
        Self {
            endpoint,
            timeout: options.timeout,
            observer: options.observer.clone(),
            streaming_lists: options.streaming_lists,
        }
    }

    /// The deadline of a call without a rule of its own.
    pub(super) fn usual(&self) -> Option<Duration> {
        Some(self.timeout)
    }

    /// The usual deadline and then some.
    pub(super) fn usual_and(&self, more: Duration) -> Option<Duration> {
        Some(self.timeout.saturating_add(more))
    }

    /// Awaits a call and maps its answer. The deadline covers both.
    pub(super) async fn run<T>(
        &self,
        rpc: Rpc,
        deadline: Option<Duration>,
        call: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, ClientError> {
        let begin = Instant::now();
        if let Some(observer) = &self.observer {
            observer.started(rpc);
        }
        let result = match deadline {
            None => call.await.map_err(|status| failure(rpc, status)),
            Some(after) => match timeout(after, call).await {
                Err(_) => Err(ClientError::Deadline { rpc, after }),
                Ok(Ok(answer)) => Ok(answer),
                // The transport watches the same deadline and may see it a moment earlier.
                Ok(Err(status)) if is_timeout(&status) && begin.elapsed() + SLACK >= after => {
                    Err(ClientError::Deadline { rpc, after })
                }
                Ok(Err(status)) => Err(failure(rpc, status)),
            },
        };
        let outcome = result.as_ref().map(|_| ()).map_err(ClientError::code);
        tracing::trace!(%rpc, endpoint = %self.endpoint, took = ?begin.elapsed(), ?outcome, "called");
        if let Some(observer) = &self.observer {
            observer.ended(rpc, begin.elapsed(), outcome);
        }
        result
    }
}

const SLACK: Duration = Duration::from_millis(5);

/// A request that tells the runtime, too, how long the caller waits.
pub(super) fn request<M>(message: M, deadline: Option<Duration>) -> Request<M> {
    let mut request = message.into_request();
    if let Some(deadline) = deadline {
        request.set_timeout(deadline);
    }
    request
}

/// One call with one answer: `unary!(self.method as Rpc within deadline, message)`.
macro_rules! unary {
    ($self:ident.$method:ident as $rpc:ident within $deadline:expr, $message:expr) => {{
        let deadline: Option<std::time::Duration> = $deadline;
        let mut client = $self.client.clone();
        let request = $crate::client::call::request($message, deadline);
        // Boxed, as tonic's futures are tens of kilobytes that each caller would hold.
        let call = Box::pin(client.$method(request));
        let answer = async { call.await.map(tonic::Response::into_inner) };
        $self.caller.run($crate::Rpc::$rpc, deadline, answer).await
    }};
}
pub(super) use unary;

/// Collects a list that comes as a stream.
pub(super) async fn collect<M, T>(
    call: impl Future<Output = Result<Response<tonic::Streaming<M>>, Status>>,
    part: impl Fn(M) -> Vec<T>,
) -> Result<Vec<T>, Status> {
    let mut stream = call.await?.into_inner();
    let mut all = Vec::new();
    while let Some(message) = stream.message().await? {
        all.append(&mut part(message));
    }
    Ok(all)
}

/// A list, as a stream if the runtime can and in one message if it can't:
/// `list!(self.stream_call as StreamRpc or self.list_call as ListRpc, request fields, parts)`.
/// A runtime that can't is not asked again.
macro_rules! list {
    ($self:ident, $stream:ident($stream_rpc:ident, $stream_request:ident, $part:ident)
        or $list:ident($list_rpc:ident, $list_request:ident, $items:ident) $(, $filter:ident)?) => {{
        let deadline = $self.caller.usual();
        let streamed = if $self.streaming.load(std::sync::atomic::Ordering::Relaxed) {
            let mut client = $self.client.clone();
            let message = $crate::v1::$stream_request { $($filter: $filter.clone())? };
            let call = client.$stream($crate::client::call::request(message, deadline));
            let all = Box::pin($crate::client::call::collect(call, |message| message.$part));
            match $self.caller.run($crate::Rpc::$stream_rpc, deadline, all).await {
                Err(error) if error.code() == tonic::Code::Unimplemented => {
                    $self.streaming.store(false, std::sync::atomic::Ordering::Relaxed);
                    None
                }
                result => Some(result),
            }
        } else {
            None
        };
        match streamed {
            Some(result) => result,
            None => {
                let message = $crate::v1::$list_request { $($filter)? };
                $crate::client::call::unary!($self.$list as $list_rpc within deadline, message)
                    .map(|answer| answer.$items)
            }
        }
    }};
}
pub(super) use list;

fn failure(rpc: Rpc, status: Status) -> ClientError {
    let mut source = status.source();
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<ConnectError>() {
            return ClientError::Unreachable(error.clone());
        }
        source = error.source();
        if source.is_none() {
            // What the runtime itself says comes without causes.
            let reason = error.to_string();
            return ClientError::Broken { rpc, reason };
        }
    }
    ClientError::Call {
        rpc,
        status: Box::new(status),
    }
}

fn is_timeout(status: &Status) -> bool {
    matches!(status.code(), Code::Cancelled | Code::DeadlineExceeded)
}
