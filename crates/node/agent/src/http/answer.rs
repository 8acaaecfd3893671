//! HTTP responses.

use std::io;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use orlop_kuberuntime::manager::RequestError;
use serde_json::Value;

/// The body of a response.
pub(super) type Body = UnsyncBoxBody<Bytes, io::Error>;
/// An HTTP response.
pub(super) type Answer = Response<Body>;

/// Makes a body from bytes that are complete.
pub(super) fn whole(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// Builds a plain text response.
pub(super) fn text(status: StatusCode, text: impl Into<String>) -> Answer {
    let mut answer = Response::new(whole(text.into()));
    *answer.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(header::CONTENT_TYPE, plain);
    answer
}

/// Builds a JSON response.
pub(super) fn json(value: &Value) -> Answer {
    let mut answer = Response::new(whole(value.to_string()));
    let kind = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}

/// Builds a response with metrics in the Prometheus text format.
pub(super) fn metrics(text: String) -> Answer {
    let mut answer = Response::new(whole(text));
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}

/// Builds the response for a failed request, as the kubelet does.
pub(super) fn failure(error: &RequestError) -> Answer {
    let status = match error {
        RequestError::NoPod(_) | RequestError::NoContainer { .. } => StatusCode::NOT_FOUND,
        RequestError::NotRunning { .. } => StatusCode::BAD_REQUEST,
        RequestError::Crowded { .. } => StatusCode::TOO_MANY_REQUESTS,
        RequestError::Runtime(_) | RequestError::Log { .. } => StatusCode::INTERNAL_SERVER_ERROR,
    };
    text(status, format!("{error}\n"))
}
