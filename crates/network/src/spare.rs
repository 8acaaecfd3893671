//! A network namespace that is created before a pod needs it.

use std::io;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::netns::Held;

/// Maximum age of a spare namespace. The kernel copies the host's `net.ipv4.conf` settings when it creates the
/// namespace, and they may change later.
pub const KEPT: Duration = Duration::from_secs(10);

/// At most one spare namespace.
#[derive(Debug, Default)]
pub struct Spare(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    #[default]
    None,
    Making,
    Made(Instant, Held),
}

impl Spare {
    /// Takes the spare namespace, unless it is too old.
    pub fn take(&self) -> Option<Held> {
        let mut state = self.0.lock();
        match std::mem::take(&mut *state) {
            State::Made(made, held) => (made.elapsed() < KEPT).then_some(held),
            State::Making => {
                *state = State::Making;
                None
            }
            State::None => None,
        }
    }

    /// Creates a spare namespace unless one exists or is being created. The caller must call [`Self::drop_old`]
    /// later.
    pub fn make(&self) -> io::Result<bool> {
        {
            let mut state = self.0.lock();
            if !matches!(*state, State::None) {
                return Ok(false);
            }
            *state = State::Making;
        }
        let held = Held::new();
        let mut state = self.0.lock();
        *state = State::None;
        *state = State::Made(Instant::now(), held?);
        Ok(true)
    }

    /// Drops the spare namespace if it is too old.
    pub fn drop_old(&self) {
        let mut state = self.0.lock();
        if matches!(&*state, State::Made(made, _) if made.elapsed() >= KEPT) {
            *state = State::None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_made_once_and_taken_once() {
        let spare = Spare::default();
        assert!(spare.take().is_none());
        assert!(spare.make().unwrap());
        assert!(!spare.make().unwrap(), "there was one");
        assert!(spare.take().is_some());
        assert!(spare.take().is_none());
        assert!(spare.make().unwrap());
    }

    #[test]
    fn an_old_one_is_let_go_and_not_taken() {
        let spare = Spare::default();
        let age = || {
            spare.make().unwrap();
            if let State::Made(made, _) = &mut *spare.0.lock() {
                *made = made.checked_sub(KEPT).unwrap();
            }
        };
        age();
        assert!(spare.take().is_none(), "too old");
        age();
        spare.drop_old();
        assert!(matches!(&*spare.0.lock(), State::None));
        spare.make().unwrap();
        spare.drop_old();
        assert!(spare.take().is_some(), "it was new");
    }
}
