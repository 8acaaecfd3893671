//! The common part of all calls: a deadline, an observer, and errors that name the call.

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

/// State that all methods of a client share.
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

    /// Returns the default deadline of a call.
    pub(super) fn usual(&self) -> Option<Duration> {
        Some(self.timeout)
    }

    /// Returns the default deadline plus `more`.
    pub(super) fn usual_and(&self, more: Duration) -> Option<Duration> {
        Some(self.timeout.saturating_add(more))
    }

    /// Runs a call and maps its response. The deadline covers both.
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
                // The transport enforces the same deadline and may time out slightly earlier.
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

/// Builds a request that also sends the deadline to the runtime.
pub(super) fn request<M>(message: M, deadline: Option<Duration>) -> Request<M> {
    let mut request = message.into_request();
    if let Some(deadline) = deadline {
        request.set_timeout(deadline);
    }
    request
}

/// Makes a unary call: `unary!(self.method as Rpc within deadline, message)`.
macro_rules! unary {
    ($self:ident.$method:ident as $rpc:ident within $deadline:expr, $message:expr) => {{
        let deadline: Option<std::time::Duration> = $deadline;
        let mut client = $self.client.clone();
        let request = $crate::client::call::request($message, deadline);
        // Boxed, because tonic's futures have tens of kilobytes that every caller's future would contain.
        let call = Box::pin(client.$method(request));
        let answer = async { call.await.map(tonic::Response::into_inner) };
        $self.caller.run($crate::Rpc::$rpc, deadline, answer).await
    }};
}
pub(super) use unary;

/// Collects a streamed list.
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

/// Requests a list, as a stream if the runtime supports that and otherwise in one message: `list!(self.stream_call as
/// StreamRpc or self.list_call as ListRpc, request fields, parts)`. A runtime without streamed lists is not asked for
/// one again.
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
            // A status that the runtime sent has no source error.
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
