//! Communication with the service manager that started the daemon (systemd or a compatible one).

mod inherited;
mod notify;

pub(crate) use inherited::{Inherited, Socket};
pub(crate) use notify::{Notifier, State};
