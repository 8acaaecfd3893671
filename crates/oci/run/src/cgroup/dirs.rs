//! Open directories of a cgroup.

use super::files::Dir;
use super::place::{Cgroup, Place};
use crate::error::{Error, Result};

/// The open directories of a cgroup.
#[derive(Debug)]
pub(super) struct Dirs<'a> {
    pub(super) cgroup: &'a Cgroup,
    /// One per place; `None` if an optional cgroup could not be created.
    pub(super) open: Vec<Option<Dir>>,
}

impl<'a> Dirs<'a> {
    /// Opens the directories of an existing cgroup.
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

    /// Returns the directory with the files of a controller.
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

    /// Replaces the cgroup v2 directory that a process enters.
    pub(super) fn replace(&mut self, dir: Dir) {
        self.open = vec![Some(dir)];
    }
}
