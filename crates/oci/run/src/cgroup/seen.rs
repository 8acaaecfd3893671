//! Facts about a cgroup for other modules.

use std::path::PathBuf;

use orlop_fs::Membership;

use super::life::State;
use super::place::{Cgroup, Place};
use crate::plan::V1;

impl Cgroup {
    /// Returns the v2 directory, if cgroup v2 is in use.
    pub(crate) fn unified(&self) -> Option<PathBuf> {
        let place = self.places.first().filter(|_| self.is_v2());
        place.map(|place| self.of_container(place))
    }

    /// Returns the v1 directories, named like their hierarchies.
    pub(crate) fn hierarchies(&self) -> Vec<V1> {
        if self.is_v2() {
            return Vec::new();
        }
        let named = self
            .places
            .iter()
            .filter(|place| place.controllers.iter().all(|it| !it.is_empty()));
        named
            .map(|place| V1 {
                name: place
                    .point
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned(),
                controllers: place.controllers.clone(),
                directory: self.of_container(place),
            })
            .collect()
    }

    /// Returns the cgroup of the container; the caller's cgroup if none of its own could be made.
    fn of_container(&self, place: &Place) -> PathBuf {
        if !self.optional || place.dir.is_dir() {
            return place.dir.clone();
        }
        let name = place.controllers.first().map_or("", String::as_str);
        let own = Membership::own().ok().and_then(|membership| {
            let own = membership.path(name)?.trim_start_matches('/');
            Some(place.point.join(own)).filter(|it| it.is_dir())
        });
        own.unwrap_or_else(|| place.point.clone())
    }

    /// Returns the directory with the freezer files.
    pub(crate) fn freezer(&self) -> Option<PathBuf> {
        self.dir("freezer").map(std::path::Path::to_owned)
    }

    /// Returns whether all its processes are frozen.
    pub(crate) fn is_frozen(&self) -> bool {
        self.state().is_ok_and(|state| state == State::Frozen)
    }
}
