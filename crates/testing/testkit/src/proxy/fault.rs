//! What may go wrong, and when.

use std::time::Duration;

use hyper::Method;

/// One way for an exchange to fail.
#[derive(Debug, Clone)]
pub enum Fault {
    /// An answer of ours, without asking the registry.
    Reply {
        /// The status.
        status: u16,
        /// Headers.
        headers: Vec<(String, String)>,
        /// The body.
        body: Vec<u8>,
    },
    /// An answer of ours whose body never ends.
    Endless {
        /// The status.
        status: u16,
    },
    /// The connection ends before any answer.
    Disconnect,
    /// The right length is announced, the connection ends after so many bytes.
    Truncate {
        /// Bytes of the body that still arrive.
        after: usize,
    },
    /// After so many bytes nothing comes for a while; then the rest.
    Stall {
        /// Bytes of the body that arrive at once.
        after: usize,
        /// How long the silence lasts.
        hold: Duration,
    },
    /// One byte of the body is another.
    Corrupt {
        /// Which byte.
        offset: usize,
    },
    /// The body trickles.
    Slow {
        /// How fast.
        bytes_per_second: usize,
    },
    /// Headers of the answer are replaced.
    Header {
        /// Its name.
        name: &'static str,
        /// The value that takes its place.
        value: String,
    },
    /// `Range` requests are answered with the whole, as some servers do.
    IgnoreRange,
    /// `Range` requests are answered with a range that is so far behind, and the answer says so.
    OtherRange {
        /// How far.
        by: u64,
    },
    /// `Range` requests are answered with bytes that are so far behind, and the answer does not say so.
    ShiftedRange {
        /// How far.
        by: u64,
    },
    /// `Range` requests are answered with their first bytes alone, and the answer says so.
    ShortRange {
        /// How many.
        bytes: u64,
    },
    /// One byte of the blob is another, in whichever range it is asked for.
    Damage {
        /// Which byte of the blob.
        at: u64,
    },
    /// All tokens have expired when the request comes ([`Door::Bearer`](crate::proxy::Door::Bearer)): it is asked
    /// for a new one.
    Expire,
}

impl Fault {
    /// A status with an empty body.
    pub fn status(status: u16) -> Self {
        Self::Reply {
            status,
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    /// A status that asks to come back after so many seconds.
    pub fn retry_after(status: u16, seconds: u32) -> Self {
        let headers = vec![("retry-after".to_owned(), seconds.to_string())];
        Self::Reply {
            status,
            headers,
            body: Vec::new(),
        }
    }

    /// A redirection.
    pub fn redirect(location: &str) -> Self {
        let headers = vec![("location".to_owned(), location.to_owned())];
        Self::Reply {
            status: 307,
            headers,
            body: Vec::new(),
        }
    }

    /// After so many bytes nothing comes any more, and nothing ends.
    pub fn stall(after: usize) -> Self {
        Self::Stall {
            after,
            hold: Duration::MAX,
        }
    }

    /// Content of ours, say a hostile manifest.
    pub fn content(media_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("content-type".to_owned(), media_type.to_owned())];
        Self::Reply {
            status: 200,
            headers,
            body: body.into(),
        }
    }
}

/// A fault and the requests that it befalls.
#[derive(Debug, Clone)]
pub struct Rule {
    pub(super) method: Option<Method>,
    pub(super) path: String,
    pub(super) skip: usize,
    pub(super) times: usize,
    pub(super) fault: Fault,
}

impl Rule {
    /// Befalls every request whose path (with query) contains `path`.
    pub fn on(path: &str, fault: Fault) -> Self {
        Self {
            method: None,
            path: path.to_owned(),
            skip: 0,
            times: usize::MAX,
            fault,
        }
    }

    /// Only requests of this method.
    pub fn method(mut self, method: Method) -> Self {
        self.method = Some(method);
        self
    }

    /// The first so many requests get through.
    pub fn skip(mut self, requests: usize) -> Self {
        self.skip = requests;
        self
    }

    /// Befalls so many requests at most.
    pub fn times(mut self, requests: usize) -> Self {
        self.times = requests;
        self
    }

    /// Whether it befalls this request; counts it.
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
