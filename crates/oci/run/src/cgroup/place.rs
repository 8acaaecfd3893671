//! Where a container's cgroup is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orlop_cgroup::{CgroupPath, Hierarchies};
use orlop_oci_types::{Device, Resources};
use serde::{Deserialize, Serialize};

use crate::args::Globals;
use crate::bundle::Bundle;
use crate::error::Result;

/// Who makes cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Driver {
    /// Directories, made directly.
    Files,
    /// Slices and scopes, made by systemd.
    Systemd,
}

/// What a container's configuration says about its cgroup.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    /// The container.
    pub(crate) id: &'a str,
    /// `linux.cgroupsPath`; empty where there is none.
    pub(crate) path: &'a str,
    pub(crate) driver: Driver,
    /// Whether what only root could do is left undone.
    pub(crate) rootless: bool,
    pub(crate) resources: Option<&'a Resources>,
    /// Of them those are read that begin with `org.systemd.property.`.
    pub(crate) annotations: &'a BTreeMap<String, String>,
    /// The device nodes that the container gets besides those that all have.
    pub(crate) devices: &'a [Device],
}

impl<'a> Wanted<'a> {
    /// What a bundle says.
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

/// A container's cgroup, in every hierarchy. This is only where it is: nothing is made with the value.
///
/// It is kept in the container's state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cgroup {
    pub(super) version: u8,
    pub(super) places: Vec<Place>,
    /// The unit that it is, where systemd makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) unit: Option<Unit>,
    /// Whether the container may do without: its user has few rights, and named no cgroup.
    #[serde(default)]
    pub(super) optional: bool,
    #[serde(default)]
    pub(super) rootless: bool,
}

/// Its directory in one hierarchy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    /// None with version 2; for the tree of version 2 beside version 1 the empty name.
    pub(super) controllers: Vec<String>,
    pub(super) dir: PathBuf,
    /// Where the hierarchy is mounted.
    pub(super) point: PathBuf,
}

/// A unit of systemd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Unit {
    pub(super) name: String,
    pub(super) slice: String,
}

impl Cgroup {
    /// Whether it is version 2's.
    pub(crate) fn is_v2(&self) -> bool {
        self.version == 2
    }

    /// Its directories by controller, as runc has them in a container's state; the one of version 2 has
    /// no controller's name.
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

    /// The directory with a controller's files.
    pub(super) fn dir(&self, controller: &str) -> Option<&Path> {
        let has = |place: &&Place| {
            self.version == 2 || place.controllers.iter().any(|it| it == controller)
        };
        self.places
            .iter()
            .find(has)
            .map(|place| place.dir.as_path())
    }

    /// The same as a cgroup whose processes can be listed, frozen and killed, and that can be removed.
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
