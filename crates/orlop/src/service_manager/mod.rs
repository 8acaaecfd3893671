//! What the daemon and the service manager that started it (systemd, or one
//! that works alike) tell each other.

mod inherited;
mod notify;

pub(crate) use inherited::{Inherited, Socket};
pub(crate) use notify::{Notifier, State};
