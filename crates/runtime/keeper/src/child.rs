//! The kinds of child processes of the keeper.

use std::time::Instant;

use orlop_keeper_protocol::ExitStatus;

/// What a child is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Process {
    /// A runtime at work.
    Call(u64),
    /// A container's first process.
    Container(u64),
    /// An exec'd command.
    Session(String),
    /// The init of the shared PID namespace.
    Init,
}

/// A child that ended before it was known what it was.
#[derive(Debug)]
pub(crate) struct Stranger {
    pub(crate) pid: i32,
    /// The session that it was put into.
    pub(crate) session: Option<i32>,
    pub(crate) status: ExitStatus,
    pub(crate) seen: Instant,
}
