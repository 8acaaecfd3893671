//! The processes of a cgroup: list, freeze, signal; and removal of the cgroup.

use std::time::Duration;

use rustix::process::Signal;

use super::place::{Cgroup, Place};
use crate::error::{Error, Result, While};

/// Maximum time for killed processes to leave a cgroup. This is ten times what a loaded machine needs; after that
/// something must be blocking them.
const PATIENCE: Duration = Duration::from_secs(10);

/// The freezer state of a cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Thawed,
    Frozen,
}

impl Cgroup {
    /// Returns the PIDs in the cgroup, as seen on the node; with `all` also those in cgroups below it.
    pub(crate) fn pids(&self, all: bool) -> Result<Vec<i32>> {
        self.refuse_none()?;
        let told = match (all, self.listed()) {
            (true, Some(dir)) => orlop_cgroup::processes_below(dir),
            (false, Some(dir)) => orlop_cgroup::processes_in(dir),
            (_, None) => return Err(Error::new("the container has no cgroup")),
        };
        told.map_err(|error| Error::new(error.to_string()))
    }

    /// Freezes all its processes.
    pub(crate) fn freeze(&self) -> Result<()> {
        self.refuse_none()?;
        self.alive()
            .freeze()
            .doing(|| "unable to freeze the container's cgroup".to_owned())
    }

    /// Thaws its processes.
    pub(crate) fn thaw(&self) -> Result<()> {
        self.alive()
            .thaw()
            .doing(|| "unable to thaw the container's cgroup".to_owned())
    }

    /// Thaws its processes, also those frozen in cgroups that the container made itself.
    pub(crate) fn thaw_all(&self) -> Result<()> {
        self.alive()
            .thaw_all()
            .doing(|| "unable to thaw the container's cgroup".to_owned())
    }

    /// Returns whether the cgroup was frozen itself, rather than one above it. A removed cgroup is not frozen.
    pub(crate) fn state(&self) -> Result<State> {
        match self.alive().is_frozen_itself() {
            Ok(true) => Ok(State::Frozen),
            Ok(false) => Ok(State::Thawed),
            Err(error) => Err(Error::new(format!(
                "unable to get cgroup freezer state: {error}"
            ))),
        }
    }

    /// Sends a signal to all processes in it and below it, including those being forked.
    ///
    /// `SIGKILL` is repeated until no process is left or a timeout ends.
    pub(crate) fn kill_all(&self, signal: Signal) -> Result<()> {
        let alive = self.alive();
        let sent = match signal {
            Signal::KILL => alive.kill(PATIENCE),
            signal => alive.signal(signal),
        };
        sent.map_err(|error| Error::new(error.to_string()))
    }

    /// Removes the cgroup with all below it. Its processes must be gone or dying.
    pub(crate) fn remove(&self) -> Result<()> {
        if let Some(unit) = &self.unit {
            self.end_unit(unit)?;
        }
        self.alive()
            .remove(PATIENCE)
            .map_err(|error| Error::new(error.to_string()))
    }

    /// Refuses an operation that needs a cgroup if the container has none of its own.
    pub(crate) fn refuse_none(&self) -> Result<()> {
        let is_there = |place: &Place| place.dir.is_dir();
        if self.optional && !self.places.iter().any(is_there) {
            return Err(Error::new("cgroups not configured for container"));
        }
        Ok(())
    }

    /// Returns the directory that lists its processes: with cgroup v1 one hierarchy, as in other runtimes.
    fn listed(&self) -> Option<&std::path::Path> {
        let usual = ["devices", "pids", "memory"];
        let usual = usual
            .into_iter()
            .find_map(|controller| self.dir(controller));
        usual.or_else(|| self.places.first().map(|place| place.dir.as_path()))
    }
}
