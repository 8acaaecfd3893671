//! A connection to a port of the pod that is being established.

use std::time::Instant;

use crate::connection::ReplyTo;
use crate::reactor::Watch;

/// A connection being made.
#[derive(Debug)]
pub(crate) struct Dialling {
    pub(crate) socket: Watch,
    pub(crate) port: u16,
    /// Whether another address family is still to be tried.
    pub(crate) more: bool,
    pub(crate) deadline: Instant,
    pub(crate) reply_to: ReplyTo,
}
