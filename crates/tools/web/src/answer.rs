//! Answers, with the headers that all of them have.

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

/// The body of an answer.
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// An answer.
pub(crate) type Answer = Response<Body>;

/// What a browser may do with an answer. Nothing of what containers say is ever run: no script stands in a
/// page, and none comes from elsewhere.
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

/// The answer as a browser may have it. What says nothing else is kept nowhere.
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

/// All of a body at once.
fn whole(kind: &'static str, bytes: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(bytes.into()).boxed_unsync());
    let kind = HeaderValue::from_static(kind);
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}

/// A document.
pub(crate) fn document(value: &Value) -> Answer {
    whole("application/json", value.to_string())
}

/// Why there is none.
pub(crate) fn failure(status: StatusCode, words: &str) -> Answer {
    let mut answer = document(&json!({ "error": words }));
    *answer.status_mut() = status;
    answer
}

/// Words for who is not let in, or went astray.
pub(crate) fn words(status: StatusCode, words: &str) -> Answer {
    let mut answer = whole("text/plain; charset=utf-8", format!("{words}\n"));
    *answer.status_mut() = status;
    answer
}

/// A file of the page, unless the browser has it.
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

/// To the page, without the token in the address. A browser that another site led here has no cookie of ours
/// with it until a page of ours leads it on.
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

/// Events as they come.
pub(crate) fn events(body: Body) -> Answer {
    let mut answer = Response::new(body);
    let kind = HeaderValue::from_static("text/event-stream");
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}

impl Refusal {
    /// The answer to a request for data, or for the page.
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
    /// The answer where there is none.
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
