//! Records of the requests for blobs.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hyper::header::CONTENT_LENGTH;
use hyper::{HeaderMap, Method};

use super::range;

/// A request for a blob or a part of it, with its response.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// Requested digest.
    pub digest: String,
    /// Requested range; the whole blob without a range.
    pub range: Range<u64>,
    /// Status of the response.
    pub status: u16,
    sent: Arc<AtomicU64>,
}

impl Fetched {
    /// Returns the record of an exchange, if it is about a blob's content.
    pub(super) fn of(
        method: &Method,
        path: &str,
        request: &HeaderMap,
        status: u16,
        answer: &HeaderMap,
    ) -> Option<Self> {
        let (_, rest) = path.rsplit_once("/blobs/")?;
        let digest = rest.split(['?', '/']).next()?;
        if method != Method::GET || !digest.contains(':') {
            return None;
        }
        let length = answer.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok());
        let length = length.and_then(|text| text.parse().ok());
        let whole = || 0..length.unwrap_or_default();
        Some(Self {
            digest: digest.to_owned(),
            range: range::asked(request).unwrap_or_else(whole),
            status,
            sent: Arc::default(),
        })
    }

    /// Returns how many bytes of the response were sent.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::SeqCst)
    }

    pub(super) fn counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.sent)
    }
}
