//! What others have to know of a cgroup.

use std::path::PathBuf;

use super::life::State;
use super::place::Cgroup;
use crate::plan::V1;

impl Cgroup {
    /// The directory of version 2, where that governs.
    pub(crate) fn unified(&self) -> Option<PathBuf> {
        let place = self.places.first().filter(|_| self.is_v2());
        place.map(|place| place.dir.clone())
    }

    /// The directories of version 1, named as their hierarchies are.
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
                directory: place.dir.clone(),
            })
            .collect()
    }

    /// The directory with the files by which it is frozen.
    pub(crate) fn freezer(&self) -> Option<PathBuf> {
        self.dir("freezer").map(std::path::Path::to_owned)
    }

    /// Whether all in it stands still.
    pub(crate) fn is_frozen(&self) -> bool {
        self.state().is_ok_and(|state| state == State::Frozen)
    }
}
