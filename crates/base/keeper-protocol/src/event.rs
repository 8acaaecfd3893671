//! What a keeper tells unasked, to those who subscribed.

use crate::codec::Malformed;
use crate::exit::ExitStatus;
use crate::frame::Frame;
use crate::message::{Body, Message, messages};

messages! {
    /// A container has ended. Its exit record is on disk, its output in the log.
    struct Exited = 200 {
        /// The container's identity.
        1 container: String,
        /// How it ended.
        2 status: ExitStatus,
    }

    /// An exec'd command has ended.
    struct ExecExited = 201 {
        /// The session's identity.
        1 exec: String,
        /// The container it ran in.
        2 container: String,
        /// How it ended.
        3 status: ExitStatus,
    }

    /// The OOM killer struck in a container.
    struct OomKilled = 202 {
        /// The container's identity.
        1 container: String,
        /// How many times so far.
        2 count: u64,
    }

    /// A container's log lost output; told once per spell, when it begins and when it is over.
    struct LogDropped = 203 {
        /// The container's identity.
        1 container: String,
        /// How many bytes so far.
        2 bytes: u64,
        /// Why.
        3 reason: String,
    }
}

/// Any event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A container has ended.
    Exited(Exited),
    /// An exec'd command has ended.
    ExecExited(ExecExited),
    /// The OOM killer struck in a container.
    OomKilled(OomKilled),
    /// A container's log lost output.
    LogDropped(LogDropped),
}

impl Event {
    /// Reads an event; one of a kind that this version does not know is `None`.
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
