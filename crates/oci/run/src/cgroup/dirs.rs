//! The directories of a cgroup, open.

use super::files::Dir;
use super::place::{Cgroup, Place};
use crate::error::{Error, Result};

/// A cgroup's directories, open.
#[derive(Debug)]
pub(super) struct Dirs<'a> {
    pub(super) cgroup: &'a Cgroup,
    /// For each place; none where a container that may do without could not have one.
    pub(super) open: Vec<Option<Dir>>,
}

impl<'a> Dirs<'a> {
    /// Of a cgroup that was made.
    pub(super) fn open(cgroup: &'a Cgroup) -> Result<Self> {
        let one = |place: &Place| match Dir::open(&place.dir) {
            Err(failed) if cgroup.optional && failed.is_not_found() => Ok(None),
            opened => opened.map(Some),
        };
        let open = cgroup.places.iter().map(one).collect::<Result<_, _>>()?;
        Ok(Self { cgroup, open })
    }

    pub(super) fn is_v2(&self) -> bool {
        self.cgroup.is_v2()
    }

    pub(super) fn is_rootless(&self) -> bool {
        self.cgroup.rootless
    }

    /// The one with a controller's files.
    pub(super) fn of(&self, controller: &str) -> Result<&Dir> {
        self.find(controller).ok_or_else(|| {
            Error::new(format!(
                "cannot set {controller} limit: container could not join or create cgroup"
            ))
        })
    }

    pub(super) fn find(&self, controller: &str) -> Option<&Dir> {
        let has =
            |place: &Place| self.is_v2() || place.controllers.iter().any(|it| it == controller);
        let at = self.cgroup.places.iter().position(has)?;
        self.open[at].as_ref()
    }

    /// Has another directory of version 2 be the door.
    pub(super) fn replace(&mut self, dir: Dir) {
        self.open = vec![Some(dir)];
    }
}
