//! The location of a container's cgroup.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orlop_cgroup::{CgroupPath, Hierarchies};
use orlop_oci_types::{Device, Resources};
use serde::{Deserialize, Serialize};

use crate::args::Globals;
use crate::bundle::Bundle;
use crate::error::Result;

/// The method of making cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Driver {
    /// Directories, made directly.
    Files,
    /// Slices and scopes, made by systemd.
    Systemd,
}

/// The cgroup settings of a container's configuration.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    /// The container's ID.
    pub(crate) id: &'a str,
    /// `linux.cgroupsPath`; empty if it is absent.
    pub(crate) path: &'a str,
    pub(crate) driver: Driver,
    /// Whether operations that only root may do are skipped.
    pub(crate) rootless: bool,
    pub(crate) resources: Option<&'a Resources>,
    /// Annotations; only those that begin with `org.systemd.property.` are read.
    pub(crate) annotations: &'a BTreeMap<String, String>,
    /// The device nodes of the container besides the default ones.
    pub(crate) devices: &'a [Device],
}

impl<'a> Wanted<'a> {
    /// Reads the settings from a bundle.
    pub(crate) fn of(globals: &Globals, id: &'a str, bundle: &'a Bundle) -> Result<Self> {
        let linux = bundle.linux()?;
        Ok(Self {
            id,
            path: &linux.cgroups_path,
            driver: if globals.systemd_cgroup {
                Driver::Systemd
            } else {
                Driver::Files
            },
            rootless: globals.rootless(),
            resources: linux.resources.as_ref(),
            annotations: &bundle.spec.annotations,
            devices: &linux.devices,
        })
    }
}

/// A container's cgroup in every hierarchy. It describes only the location: nothing is made with the value.
///
/// It is stored in the container's state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cgroup {
    pub(super) version: u8,
    pub(super) places: Vec<Place>,
    /// The systemd unit, if systemd makes the cgroup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) unit: Option<Unit>,
    /// Whether the container can run without it: its user has few privileges and named no cgroup.
    #[serde(default)]
    pub(super) optional: bool,
    #[serde(default)]
    pub(super) rootless: bool,
}

/// The directory in one hierarchy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    /// Empty with cgroup v2; the empty name for the v2 tree of a node that also has v1.
    pub(super) controllers: Vec<String>,
    pub(super) dir: PathBuf,
    /// The mount point of the hierarchy.
    pub(super) point: PathBuf,
}

/// A systemd unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Unit {
    pub(super) name: String,
    pub(super) slice: String,
}

impl Cgroup {
    /// Returns whether it is a cgroup v2.
    pub(crate) fn is_v2(&self) -> bool {
        self.version == 2
    }

    /// Returns the directories by controller, as in runc's container state; the key of a v2 directory is empty.
    pub(crate) fn paths(&self) -> BTreeMap<String, PathBuf> {
        let of = |place: &Place| -> Vec<(String, PathBuf)> {
            let dir = &place.dir;
            match place.controllers[..] {
                [] => vec![(String::new(), dir.clone())],
                _ => place
                    .controllers
                    .iter()
                    .map(|it| (it.clone(), dir.clone()))
                    .collect(),
            }
        };
        self.places.iter().flat_map(of).collect()
    }

    /// Returns the directory with the files of a controller.
    pub(super) fn dir(&self, controller: &str) -> Option<&Path> {
        let has = |place: &&Place| {
            self.version == 2 || place.controllers.iter().any(|it| it == controller)
        };
        self.places
            .iter()
            .find(has)
            .map(|place| place.dir.as_path())
    }

    /// Returns the cgroup as a value whose processes can be listed, frozen and killed, and that can be removed.
    pub(super) fn alive(&self) -> orlop_cgroup::Cgroup {
        let mut v1 = BTreeMap::new();
        let mut v2 = None;
        for (controller, dir) in self.paths() {
            if controller.is_empty() {
                v2 = Some(dir);
            } else {
                v1.insert(controller, dir);
            }
        }
        let hierarchies = Arc::new(Hierarchies::of_one_cgroup(v1, v2));
        orlop_cgroup::Cgroup::new(hierarchies, CgroupPath::root())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_found_again_from_the_state() {
        let cgroup = Cgroup {
            version: 1,
            places: vec![Place {
                controllers: vec!["cpu".into(), "cpuacct".into()],
                dir: "/cg/cpu/a".into(),
                point: "/cg/cpu".into(),
            }],
            unit: None,
            optional: false,
            rootless: false,
        };
        let text = serde_json::to_string(&cgroup).unwrap();
        assert_eq!(serde_json::from_str::<Cgroup>(&text).unwrap(), cgroup);
        assert_eq!(cgroup.paths().len(), 2);
        assert_eq!(cgroup.dir("cpuacct"), Some(Path::new("/cg/cpu/a")));
        assert_eq!(cgroup.dir("memory"), None);
    }
}
