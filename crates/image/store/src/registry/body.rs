//! Response bodies: large ones in pieces, small ones whole and with a size limit.

use bytes::Bytes;
use reqwest::Response;

use super::attempt::Attempt;
use super::connections::Connection;
use super::failure::unavailable;
use crate::{Error, Pace, Result, Slow};

/// A blob, or part of one, that is being received. Holds one of the connections.
pub(crate) struct Body {
    pub(super) response: Response,
    /// The offset of the first byte in the blob.
    pub(crate) offset: u64,
    /// Whether the host sent the requested range instead of everything.
    pub(crate) is_part: bool,
    pub(super) pace: Pace,
    pub(super) what: String,
    pub(super) host: String,
    pub(super) _connection: Connection,
}

impl Body {
    /// Returns the next bytes; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Attempt> {
        let next = self.response.chunk();
        let size =
            |came: &reqwest::Result<Option<Bytes>>| came.as_ref().ok()?.as_ref().map(Bytes::len);
        let (reason, is_trickle) = match self.pace.wait(next, size).await {
            Ok(Ok(bytes)) => return Ok(bytes),
            Ok(Err(error)) => (orlop_text::with_causes(&error.without_url()), false),
            Err(slow) => (slow.to_string(), matches!(slow, Slow::Trickle { .. })),
        };
        let error = unavailable(&self.what, &self.host, reason);
        Err(if is_trickle {
            Attempt::Slow(error)
        } else {
            Attempt::Transient(error, None)
        })
    }

    /// Returns the error of a body that ended early.
    pub(crate) fn cut_short(&self) -> Attempt {
        let reason = "the connection ended too early".to_owned();
        Attempt::Transient(unavailable(&self.what, &self.host, reason), None)
    }

    /// Returns the error of a body that is too long.
    pub(crate) fn too_long(&self) -> Attempt {
        self.protocol("it sent more bytes than the manifest states")
    }

    /// Returns the error of a host that violates the protocol.
    pub(crate) fn protocol(&self, reason: &str) -> Attempt {
        Attempt::Final(Error::Protocol {
            what: self.what.clone(),
            host: self.host.clone(),
            reason: reason.to_owned(),
        })
    }
}

/// The failure to read a small body.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("the response is longer than the limit of {0} bytes")]
    TooLong(u64),
    #[error(transparent)]
    Http(#[from] reqwest::Error),
}

/// Reads a body that must not exceed `limit` bytes.
pub(super) async fn read_bounded(mut response: Response, limit: u64) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await? {
        if (bytes.len() + piece.len()) as u64 > limit {
            return Err(ReadError::TooLong(limit));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}
