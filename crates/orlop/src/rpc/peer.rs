//! The client of a connection, attached to each of its calls.

use orlop_listen::{Activity, InProgress, Origin};
use tokio::net::unix::UCred;

/// The client end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    credentials: Option<UCred>,
    process: Option<u32>,
    activity: Activity,
}

impl Peer {
    /// Creates the peer of a connection on a unix socket.
    pub(crate) fn new(credentials: Option<UCred>, activity: Activity) -> Self {
        let process = credentials.and_then(|it| it.pid());
        Self {
            credentials,
            ..Self::of(Origin::of_process(process).process(), activity)
        }
    }

    /// Creates the peer for a process ID.
    pub(crate) fn of(process: Option<u32>, activity: Activity) -> Self {
        Self {
            credentials: None,
            process,
            activity,
        }
    }

    /// Returns the credentials of a process on this machine.
    pub(super) fn credentials(&self) -> Option<UCred> {
        self.credentials
    }

    /// Returns the client's process on this machine.
    pub(crate) fn process(&self) -> Option<u32> {
        self.process
    }

    /// Closes the connection.
    pub(crate) fn leave(&self) {
        self.activity.close();
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.activity.is_closing()
    }

    /// Marks the peer as calling, until the guard is dropped.
    pub(super) fn calls(&self) -> InProgress {
        self.activity.request()
    }
}
