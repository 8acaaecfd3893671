//! Notifications of the daemon's state to the service manager, as in sd_notify(3).

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;

use rustix::time::{ClockId, clock_gettime};

/// Address of the service manager; without one, notifications are dropped.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notifier(Option<Address>);

#[derive(Debug, Clone)]
enum Address {
    Path(PathBuf),
    Abstract(String),
}

/// State of the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// The daemon answers requests.
    Ready,
    /// The daemon reloads the configuration; [`State::Ready`] follows.
    Reloading,
    /// The daemon is stopping.
    Stopping,
    /// The daemon is alive.
    Watchdog,
}

impl Notifier {
    /// Creates a notifier for the address in `NOTIFY_SOCKET`.
    pub(super) fn new(address: &str) -> Self {
        Self(match address.as_bytes() {
            [b'@', ..] => Some(Address::Abstract(address[1..].to_owned())),
            [b'/', ..] => Some(Address::Path(address.into())),
            _ => None,
        })
    }

    /// Sends the state. A failure is only logged.
    pub(crate) fn tell(&self, state: State) {
        let Some(address) = &self.0 else { return };
        if let Err(error) = send(address, &message(state)) {
            tracing::warn!(%error, ?state, "cannot notify the service manager");
        }
    }
}

fn message(state: State) -> String {
    match state {
        State::Ready => "READY=1\nSTATUS=serving".to_owned(),
        State::Reloading => {
            let now = clock_gettime(ClockId::Monotonic);
            let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
            format!("RELOADING=1\nMONOTONIC_USEC={micros}\nSTATUS=reading the configuration")
        }
        State::Stopping => "STOPPING=1\nSTATUS=waiting for running calls".to_owned(),
        State::Watchdog => "WATCHDOG=1".to_owned(),
    }
}

fn send(address: &Address, message: &str) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    // A manager that does not read must not stall the daemon.
    socket.set_nonblocking(true)?;
    let address = match address {
        Address::Path(path) => SocketAddr::from_pathname(path)?,
        Address::Abstract(name) => SocketAddr::from_abstract_name(name)?,
    };
    socket.send_to_addr(message.as_bytes(), &address).map(drop)
}
