//! Events that a keeper sends to subscribers.

use crate::codec::Malformed;
use crate::exit::ExitStatus;
use crate::frame::Frame;
use crate::message::{Body, Message, messages};

messages! {
    /// A container has ended. Its exit record is on disk, its output in the log.
    struct Exited = 200 {
        /// The ID of the container.
        1 container: String,
        /// The exit status.
        2 status: ExitStatus,
    }

    /// A command of an exec session has ended.
    struct ExecExited = 201 {
        /// The ID of the session.
        1 exec: String,
        /// The ID of its container.
        2 container: String,
        /// The exit status.
        3 status: ExitStatus,
    }

    /// The OOM killer has killed a process in a container.
    struct OomKilled = 202 {
        /// The ID of the container.
        1 container: String,
        /// The total number of kills.
        2 count: u64,
    }

    /// A container's log lost output; sent once per period, when it begins and when it is over.
    struct LogDropped = 203 {
        /// The ID of the container.
        1 container: String,
        /// The total number of bytes.
        2 bytes: u64,
        /// The reason.
        3 reason: String,
    }
}

/// Any event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A container has ended.
    Exited(Exited),
    /// A command of an exec session has ended.
    ExecExited(ExecExited),
    /// The OOM killer has killed a process in a container.
    OomKilled(OomKilled),
    /// A container's log lost output.
    LogDropped(LogDropped),
}

impl Event {
    /// Decodes an event; `None` if its kind is unknown to this version.
    pub fn decode(frame: &Frame) -> Result<Option<Self>, Malformed> {
        let payload = &frame.payload;
        Ok(match frame.kind {
            Exited::KIND => Some(Self::Exited(Exited::decode(payload)?)),
            ExecExited::KIND => Some(Self::ExecExited(ExecExited::decode(payload)?)),
            OomKilled::KIND => Some(Self::OomKilled(OomKilled::decode(payload)?)),
            LogDropped::KIND => Some(Self::LogDropped(LogDropped::decode(payload)?)),
            _ => None,
        })
    }
}
