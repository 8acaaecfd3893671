//! HTTP responses with the common security headers.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use crate::access::Refusal;
use crate::asked::AskError;
use crate::page::File;

/// Body of a response.
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// A response.
pub(crate) type Answer = Response<Body>;

/// Security headers. Text from containers is never executed: pages contain no inline scripts and load none from
/// elsewhere.
const RULES: [(&str, &str); 6] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         font-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("x-frame-options", "DENY"),
];

/// Adds the security headers. A response is not cached unless it says otherwise.
pub(crate) fn secured(mut answer: Answer) -> Answer {
    let headers = answer.headers_mut();
    for (name, value) in RULES {
        let name = HeaderName::from_static(name);
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    answer
}

/// Creates a response with a complete body.
fn whole(kind: &'static str, bytes: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(bytes.into()).boxed_unsync());
    let kind = HeaderValue::from_static(kind);
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}

/// Creates a JSON response.
pub(crate) fn document(value: &Value) -> Answer {
    whole("application/json", value.to_string())
}

/// Creates a JSON response with an error.
pub(crate) fn failure(status: StatusCode, words: &str) -> Answer {
    let mut answer = document(&json!({ "error": words }));
    *answer.status_mut() = status;
    answer
}

/// Creates a plain text response for a refused or unknown request.
pub(crate) fn words(status: StatusCode, words: &str) -> Answer {
    let mut answer = whole("text/plain; charset=utf-8", format!("{words}\n"));
    *answer.status_mut() = status;
    answer
}

/// Serves a file of the page, unless the browser's copy is current.
pub(crate) fn file(file: File, asked: &HeaderMap) -> Answer {
    let tag = file.tag();
    let known = asked.get(header::IF_NONE_MATCH);
    let mut answer = if known.is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        let mut answer = whole(file.kind(), Bytes::new());
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
        answer
    } else {
        whole(file.kind(), file.bytes)
    };
    let headers = answer.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::try_from(tag) {
        headers.insert(header::ETAG, tag);
    }
    answer
}

/// Redirects to the page without the token in the URL. After a link from another site, the browser does not send the
/// cookie until a page of this server leads it on.
pub(crate) fn welcome(cookie: HeaderValue, is_led: bool) -> Answer {
    let (status, name, value) = if is_led {
        (StatusCode::OK, header::REFRESH, "0; url=/")
    } else {
        (StatusCode::SEE_OTHER, header::LOCATION, "/")
    };
    let mut answer = words(status, "the page is at /");
    let headers = answer.headers_mut();
    headers.insert(name, HeaderValue::from_static(value));
    headers.insert(header::SET_COOKIE, cookie);
    answer
}

/// Creates a response with server-sent events.
pub(crate) fn events(body: Body) -> Answer {
    let mut answer = Response::new(body);
    let kind = HeaderValue::from_static("text/event-stream");
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}

impl Refusal {
    /// Converts the error for a request for data or for the page.
    pub(crate) fn answer(self, is_api: bool) -> Answer {
        let status = match self {
            Self::Host => StatusCode::MISDIRECTED_REQUEST,
            Self::Origin | Self::WrongToken => StatusCode::FORBIDDEN,
            Self::Stranger => StatusCode::UNAUTHORIZED,
        };
        let text = self.to_string();
        if is_api {
            failure(status, &text)
        } else {
            words(status, &text)
        }
    }
}

impl AskError {
    /// Converts the error to a response.
    pub(crate) fn answer(&self) -> Answer {
        let status = match self {
            Self::Gone(_) => StatusCode::BAD_GATEWAY,
            Self::NotThere(_) => StatusCode::NOT_FOUND,
            Self::Unknown(_) => StatusCode::NOT_IMPLEMENTED,
            Self::Wrong(_) => StatusCode::BAD_REQUEST,
            Self::Late(_) => StatusCode::GATEWAY_TIMEOUT,
            Self::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        failure(status, &self.to_string())
    }
}
