//! Faults, and the requests that they apply to.

use std::time::Duration;

use hyper::Method;

/// A fault of a request or response.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The proxy responds itself, without the registry.
    Reply {
        /// The status.
        status: u16,
        /// Headers.
        headers: Vec<(String, String)>,
        /// The body.
        body: Vec<u8>,
    },
    /// The proxy responds with an endless body.
    Endless {
        /// The status.
        status: u16,
    },
    /// The connection ends before a response.
    Disconnect,
    /// The full length is announced, but the connection ends earlier.
    Truncate {
        /// Bytes of the body before the end.
        after: usize,
    },
    /// The body pauses, then continues.
    Stall {
        /// Bytes of the body before the pause.
        after: usize,
        /// Length of the pause.
        hold: Duration,
    },
    /// One byte of the body is changed.
    Corrupt {
        /// Offset of the byte.
        offset: usize,
    },
    /// The body is slow.
    Slow {
        /// Rate in bytes per second.
        bytes_per_second: usize,
    },
    /// A header of the response is replaced.
    Header {
        /// Name of the header.
        name: &'static str,
        /// New value.
        value: String,
    },
    /// `Range` requests get the complete body, as from some servers.
    IgnoreRange,
    /// `Range` requests get a shifted range, with a matching `Content-Range`.
    OtherRange {
        /// Shift in bytes.
        by: u64,
    },
    /// `Range` requests get shifted bytes, with the requested `Content-Range`.
    ShiftedRange {
        /// Shift in bytes.
        by: u64,
    },
    /// `Range` requests get only their first bytes, with a matching `Content-Range`.
    ShortRange {
        /// Number of bytes.
        bytes: u64,
    },
    /// One byte of the blob is changed, in every range.
    Damage {
        /// Offset in the blob.
        at: u64,
    },
    /// All tokens expire when the request arrives ([`Door::Bearer`](crate::proxy::Door::Bearer)), so that it needs a
    /// new one.
    Expire,
}

impl Fault {
    /// Responds with a status and an empty body.
    pub fn status(status: u16) -> Self {
        Self::Reply {
            status,
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    /// Responds with a status and a `Retry-After` header in seconds.
    pub fn retry_after(status: u16, seconds: u32) -> Self {
        let headers = vec![("retry-after".to_owned(), seconds.to_string())];
        Self::Reply {
            status,
            headers,
            body: Vec::new(),
        }
    }

    /// Responds with a redirect.
    pub fn redirect(location: &str) -> Self {
        let headers = vec![("location".to_owned(), location.to_owned())];
        Self::Reply {
            status: 307,
            headers,
            body: Vec::new(),
        }
    }

    /// Stops the body after this many bytes, without ending it.
    pub fn stall(after: usize) -> Self {
        Self::Stall {
            after,
            hold: Duration::MAX,
        }
    }

    /// Responds with this content, such as a hostile manifest.
    pub fn content(media_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("content-type".to_owned(), media_type.to_owned())];
        Self::Reply {
            status: 200,
            headers,
            body: body.into(),
        }
    }
}

/// A fault and the requests it applies to.
#[derive(Debug, Clone)]
pub struct Rule {
    pub(super) method: Option<Method>,
    pub(super) path: String,
    pub(super) skip: usize,
    pub(super) times: usize,
    pub(super) fault: Fault,
}

impl Rule {
    /// Applies to every request whose path (with query) contains `path`.
    pub fn on(path: &str, fault: Fault) -> Self {
        Self {
            method: None,
            path: path.to_owned(),
            skip: 0,
            times: usize::MAX,
            fault,
        }
    }

    /// Restricts the rule to a method.
    pub fn method(mut self, method: Method) -> Self {
        self.method = Some(method);
        self
    }

    /// Lets the first requests pass.
    pub fn skip(mut self, requests: usize) -> Self {
        self.skip = requests;
        self
    }

    /// Limits the number of affected requests.
    pub fn times(mut self, requests: usize) -> Self {
        self.times = requests;
        self
    }

    /// Returns whether the rule applies to this request, and counts it.
    pub(super) fn takes(&mut self, method: &Method, path: &str) -> bool {
        if self.method.as_ref().is_some_and(|own| own != method) || !path.contains(&self.path) {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        if self.times == 0 {
            return false;
        }
        self.times -= 1;
        true
    }
}
