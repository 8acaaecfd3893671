//! The kinds of child processes of the keeper.

use std::time::Instant;

use orlop_keeper_protocol::ExitStatus;

/// The role of a child process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Process {
    /// A running call of the runtime.
    Call(u64),
    /// A container's first process.
    Container(u64),
    /// A command of an exec session.
    Session(String),
    /// The init of the shared PID namespace.
    Init,
}

/// A child that ended before the keeper knew its role.
#[derive(Debug)]
pub(crate) struct Stranger {
    pub(crate) pid: i32,
    /// The session that the child was in, if it was not the keeper's.
    pub(crate) session: Option<i32>,
    pub(crate) status: ExitStatus,
    pub(crate) seen: Instant,
}
