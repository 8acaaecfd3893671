//! Event listeners: local processes, which may reconnect.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;

/// The pid of the calling process, set as a request extension by the server that accepted the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller(pub u32);

/// A process, identified so that a later process with the same pid is not mistaken for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Listener {
    process: u32,
    /// Start time in clock ticks since boot.
    began: u64,
}

/// Maximum number of listeners read from a file.
pub(super) const MOST: usize = 64;

impl Listener {
    /// Identifies the process of a caller; `None` if it has exited.
    pub fn of(Caller(process): Caller) -> Option<Self> {
        let stat = orlop_fs::read_kernel_text(format!("/proc/{process}/stat")).ok()?;
        // The name in parentheses may contain any character; the start time is the twentieth field after it.
        let (_, fields) = stat.rsplit_once(')')?;
        let began = fields.split_ascii_whitespace().nth(19)?.parse().ok()?;
        Some(Self { process, began })
    }

    /// Whether the process still runs.
    pub(super) fn lives(self) -> bool {
        Self::of(Caller(self.process)) == Some(self)
    }
}

/// Reads the listeners in a file that still run.
pub(super) fn read(path: &Path) -> Vec<Listener> {
    let text = orlop_fs::read_text(path, orlop_fs::SMALL_FILE).unwrap_or_default();
    let parsed = text.lines().take(MOST).filter_map(|line| {
        let (process, began) = line.split_once(' ')?;
        Some(Listener {
            process: process.parse().ok()?,
            began: began.parse().ok()?,
        })
    });
    parsed.filter(|listener| listener.lives()).collect()
}

/// Formats the file: the first running listeners, up to the maximum.
pub(super) fn written(listeners: &[Listener]) -> String {
    let mut seen = HashSet::new();
    let living = listeners
        .iter()
        .filter(|listener| seen.insert(**listener) && listener.lives());
    let mut text = String::new();
    for listener in living.take(MOST) {
        let _ = writeln!(text, "{} {}", listener.process, listener.began);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Listener {
        /// An earlier process with the same pid.
        pub(in crate::events) fn former(self, age: u64) -> Self {
            Self {
                began: self.began - age,
                ..self
            }
        }
    }

    #[test]
    fn only_processes_that_live_are_known_again() {
        let own = Listener::of(Caller(std::process::id())).unwrap();
        let former = own.former(1);
        assert_eq!(Listener::of(Caller(u32::MAX)), None);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("listeners");
        assert_eq!(read(&path), []);
        let both = format!(
            "{}{} {}\nx\n",
            written(&[own, former]),
            former.process,
            former.began
        );
        std::fs::write(&path, both).unwrap();
        assert_eq!(read(&path), [own]);
        assert_eq!(written(&[former]), "");
    }

    #[test]
    fn ended_ones_and_the_same_again_take_no_place_in_the_file() {
        let own = Listener::of(Caller(std::process::id())).unwrap();
        let init = Listener::of(Caller(1)).unwrap();
        let mut listeners: Vec<_> = (1..=MOST as u64).map(|age| own.former(age)).collect();
        listeners.extend([own; MOST]);
        listeners.push(init);
        let both = [own, init].map(|one| format!("{} {}\n", one.process, one.began));
        assert_eq!(written(&listeners), both.concat());
    }
}
