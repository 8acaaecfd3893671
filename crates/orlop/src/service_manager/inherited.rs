//! Environment variables and open sockets from the service manager.
//!
//! They are removed from the environment, so that child processes do not act on them.
#![allow(unsafe_code)]

use std::env;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_setfd};

use super::notify::Notifier;

/// Everything that the service manager passed.
#[derive(Debug, Default)]
pub(crate) struct Inherited {
    /// Listening sockets.
    pub(crate) sockets: Vec<Socket>,
    /// Connection for notifications to the manager.
    pub(crate) notifier: Notifier,
    /// Period after which the manager restarts a silent daemon.
    pub(crate) watchdog: Option<Duration>,
    /// Device and inode of the journal stream of standard error.
    pub(crate) journal: Option<(u64, u64)>,
}

/// A socket passed by the manager, with its name in the unit.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) name: String,
    pub(crate) fd: OwnedFd,
}

const VARIABLES: [&str; 7] = [
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "JOURNAL_STREAM",
];

/// `SD_LISTEN_FDS_START` of sd_listen_fds(3).
const FIRST_FD: RawFd = 3;

/// Limit of sockets, more than any unit passes.
const MOST_SOCKETS: RawFd = 64;

impl Inherited {
    /// Takes the variables and sockets.
    ///
    /// # Safety
    ///
    /// Must be called once, by `main`, before there is a second thread and before any file is opened: it changes the
    /// environment and owns descriptors by their number.
    pub(crate) unsafe fn take() -> Self {
        let environment = Environment::read();
        for name in VARIABLES {
            // SAFETY: the caller guarantees that there is no other thread that could read meanwhile.
            unsafe { env::remove_var(name) };
        }
        let sockets = environment
            .socket_names()
            .into_iter()
            .zip(FIRST_FD..)
            .filter_map(|(name, fd)| {
                // SAFETY: the manager's promise of LISTEN_PID and LISTEN_FDS is
                // that these descriptors are open and this process's; no other
                // file has been opened that could own one of them.
                let fd = unsafe { OwnedFd::from_raw_fd(fd) };
                if fcntl_setfd(&fd, FdFlags::CLOEXEC).is_err() {
                    // The descriptor is not open, so there is nothing to own.
                    std::mem::forget(fd);
                    return None;
                }
                Some(Socket { name, fd })
            })
            .collect();
        Self {
            sockets,
            notifier: environment
                .notify_socket
                .as_deref()
                .map(Notifier::new)
                .unwrap_or_default(),
            watchdog: environment.watchdog(),
            journal: environment.journal(),
        }
    }
}

/// The values of the variables.
#[derive(Debug, Default)]
struct Environment {
    own_pid: u32,
    listen_pid: Option<String>,
    listen_fds: Option<String>,
    listen_names: Option<String>,
    notify_socket: Option<String>,
    watchdog_pid: Option<String>,
    watchdog_usec: Option<String>,
    journal_stream: Option<String>,
}

impl Environment {
    fn read() -> Self {
        let variable = |name| env::var(name).ok();
        Self {
            own_pid: std::process::id(),
            listen_pid: variable("LISTEN_PID"),
            listen_fds: variable("LISTEN_FDS"),
            listen_names: variable("LISTEN_FDNAMES"),
            notify_socket: variable("NOTIFY_SOCKET"),
            watchdog_pid: variable("WATCHDOG_PID"),
            watchdog_usec: variable("WATCHDOG_USEC"),
            journal_stream: variable("JOURNAL_STREAM"),
        }
    }

    fn is_me(&self, pid: Option<&str>) -> bool {
        pid.and_then(|pid| pid.parse().ok()) == Some(self.own_pid)
    }

    /// Returns one name for each socket passed to this process.
    fn socket_names(&self) -> Vec<String> {
        let count = self
            .listen_fds
            .as_deref()
            .and_then(|count| count.parse::<RawFd>().ok());
        let Some(count) = count.filter(|_| self.is_me(self.listen_pid.as_deref())) else {
            return Vec::new();
        };
        let mut names = self.listen_names.as_deref().unwrap_or_default().split(':');
        (0..count.clamp(0, MOST_SOCKETS))
            .map(|_| names.next().unwrap_or_default().to_owned())
            .collect()
    }

    fn watchdog(&self) -> Option<Duration> {
        let for_me = self.watchdog_pid.is_none() || self.is_me(self.watchdog_pid.as_deref());
        let micros: u64 = self.watchdog_usec.as_deref()?.parse().ok()?;
        (for_me && micros > 0).then_some(Duration::from_micros(micros))
    }

    fn journal(&self) -> Option<(u64, u64)> {
        let (device, inode) = self.journal_stream.as_deref()?.split_once(':')?;
        Some((device.parse().ok()?, inode.parse().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(pid: &str, fds: &str, names: Option<&str>) -> Vec<String> {
        Environment {
            own_pid: 7,
            listen_pid: Some(pid.to_owned()),
            listen_fds: Some(fds.to_owned()),
            listen_names: names.map(str::to_owned),
            ..Environment::default()
        }
        .socket_names()
    }

    #[test]
    fn sockets_for_another_process_are_left_alone() {
        assert_eq!(passed("8", "2", None), Vec::<String>::new());
        assert_eq!(passed("7", "-1", None), Vec::<String>::new());
        assert_eq!(passed("7", "many", None), Vec::<String>::new());
    }

    #[test]
    fn sockets_have_the_names_of_their_unit() {
        assert_eq!(passed("7", "2", Some("grpc:metrics")), ["grpc", "metrics"]);
        assert_eq!(passed("7", "2", Some("grpc")), ["grpc", ""]);
        assert_eq!(passed("7", "1", None), [""]);
    }

    #[test]
    fn the_watchdog_is_another_process_s_business_where_it_names_one() {
        let environment = |pid: Option<&str>| Environment {
            own_pid: 7,
            watchdog_pid: pid.map(str::to_owned),
            watchdog_usec: Some("20000000".to_owned()),
            ..Environment::default()
        };
        assert_eq!(environment(None).watchdog(), Some(Duration::from_secs(20)));
        assert_eq!(
            environment(Some("7")).watchdog(),
            Some(Duration::from_secs(20))
        );
        assert_eq!(environment(Some("8")).watchdog(), None);
    }
}
