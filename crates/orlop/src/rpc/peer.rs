//! Who calls: what a connection hands to each of its calls.

use orlop_listen::{Activity, InProgress, Origin};
use tokio::net::unix::UCred;

/// The other end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    credentials: Option<UCred>,
    process: Option<u32>,
    activity: Activity,
}

impl Peer {
    /// The peer of a connection on a unix socket.
    pub(crate) fn new(credentials: Option<UCred>, activity: Activity) -> Self {
        let process = credentials.and_then(|it| it.pid());
        Self {
            credentials,
            ..Self::of(Origin::of_process(process).process(), activity)
        }
    }

    /// The same of a process.
    pub(crate) fn of(process: Option<u32>, activity: Activity) -> Self {
        Self {
            credentials: None,
            process,
            activity,
        }
    }

    /// Of a process of this machine.
    pub(super) fn credentials(&self) -> Option<UCred> {
        self.credentials
    }

    /// The process of this machine that it is.
    pub(crate) fn process(&self) -> Option<u32> {
        self.process
    }

    /// Has its connection closed.
    pub(crate) fn leave(&self) {
        self.activity.close();
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.activity.is_closing()
    }

    /// It calls, until this is dropped.
    pub(super) fn calls(&self) -> InProgress {
        self.activity.request()
    }
}
