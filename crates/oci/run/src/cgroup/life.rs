//! The processes of a cgroup: listed, frozen, signalled, and the cgroup removed.

use std::time::Duration;

use rustix::process::Signal;

use super::place::{Cgroup, Place};
use crate::error::{Error, Result, While};

/// How long a cgroup may take to be left by processes that were killed. Ten times as long as a machine
/// under load needs: then something holds them.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether its processes stand still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Thawed,
    Frozen,
}

impl Cgroup {
    /// The processes in it, by their ids on this node; with `all` those in cgroups below it, too.
    pub(crate) fn pids(&self, all: bool) -> Result<Vec<i32>> {
        self.refuse_none()?;
        let told = match (all, self.listed()) {
            (true, Some(dir)) => orlop_cgroup::processes_below(dir),
            (false, Some(dir)) => orlop_cgroup::processes_in(dir),
            (_, None) => return Err(Error::new("the container has no cgroup")),
        };
        told.map_err(|error| Error::new(error.to_string()))
    }

    /// Stops all its processes where they stand.
    pub(crate) fn freeze(&self) -> Result<()> {
        self.refuse_none()?;
        self.alive()
            .freeze()
            .doing(|| "unable to freeze the container's cgroup".to_owned())
    }

    /// Lets them go on.
    pub(crate) fn thaw(&self) -> Result<()> {
        self.alive()
            .thaw()
            .doing(|| "unable to thaw the container's cgroup".to_owned())
    }

    /// The same for those, too, that stand still in cgroups of the container's own.
    pub(crate) fn thaw_all(&self) -> Result<()> {
        self.alive()
            .thaw_all()
            .doing(|| "unable to thaw the container's cgroup".to_owned())
    }

    /// Whether they stand still because it was frozen itself, rather than one above it. One that is gone
    /// is not frozen.
    pub(crate) fn state(&self) -> Result<State> {
        match self.alive().is_frozen_itself() {
            Ok(true) => Ok(State::Frozen),
            Ok(false) => Ok(State::Thawed),
            Err(error) => Err(Error::new(format!(
                "unable to get cgroup freezer state: {error}"
            ))),
        }
    }

    /// Sends a signal to all in it and below it, also to those that are being forked.
    ///
    /// `SIGKILL` is given to each until none is left, or for so long as processes take to die.
    pub(crate) fn kill_all(&self, signal: Signal) -> Result<()> {
        let alive = self.alive();
        let sent = match signal {
            Signal::KILL => alive.kill(PATIENCE),
            signal => alive.signal(signal),
        };
        sent.map_err(|error| Error::new(error.to_string()))
    }

    /// Removes it with all below it. There must be no processes any more but such as are dying.
    pub(crate) fn remove(&self) -> Result<()> {
        if let Some(unit) = &self.unit {
            self.end_unit(unit)?;
        }
        self.alive()
            .remove(PATIENCE)
            .map_err(|error| Error::new(error.to_string()))
    }

    /// Refuses what takes a cgroup of the container's own where it does without.
    pub(crate) fn refuse_none(&self) -> Result<()> {
        let is_there = |place: &Place| place.dir.is_dir();
        if self.optional && !self.places.iter().any(is_there) {
            return Err(Error::new("cgroups not configured for container"));
        }
        Ok(())
    }

    /// Where its processes are listed: with version 1 in one hierarchy, as others do.
    fn listed(&self) -> Option<&std::path::Path> {
        let usual = ["devices", "pids", "memory"];
        let usual = usual
            .into_iter()
            .find_map(|controller| self.dir(controller));
        usual.or_else(|| self.places.first().map(|place| place.dir.as_path()))
    }
}
