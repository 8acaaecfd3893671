//! Determines the location of a container's cgroup.

use std::path::{Path, PathBuf};

use orlop_cgroup::CgroupPath;
use orlop_oci_types::Resources;

use super::devices::Rules;
use super::limits;
use super::mounts::{Mounted, Mounts};
use super::place::{Cgroup, Driver, Place, Wanted};
use crate::error::{Error, Result};

impl Cgroup {
    /// Determines the location, and refuses invalid settings. Makes nothing.
    pub(crate) fn plan(wanted: &Wanted<'_>) -> Result<Self> {
        let planned = match wanted.driver {
            Driver::Files => Self::of_path(wanted)?,
            Driver::Systemd => Self::of_unit(wanted)?,
        };
        let nothing = Resources::default();
        let resources = wanted.resources.unwrap_or(&nothing);
        Rules::of(&resources.devices, wanted.devices)?;
        limits::check(resources, planned.version)?;
        Ok(planned)
    }

    fn of_path(wanted: &Wanted<'_>) -> Result<Self> {
        let path = clean(if wanted.path.is_empty() {
            wanted.id
        } else {
            wanted.path
        });
        let relative = !path.starts_with('/');
        let mounts = Mounts::find(relative)?;
        let dir = |point: &Path, own: &str| -> Result<PathBuf> {
            let whole = if relative {
                format!("{own}/{path}")
            } else {
                path.clone()
            };
            let whole = CgroupPath::parse(&whole).map_err(|error| Error::new(error.to_string()))?;
            if whole.is_root() {
                return Err(Error::new(format!(
                    "cgroupsPath {:?} is the root cgroup; name a cgroup below it",
                    wanted.path
                )));
            }
            Ok(whole.below(point))
        };
        let (version, places) = match &mounts {
            Mounts::V2(mounted) => {
                // The caller is likely in its own cgroup, which cannot delegate controllers while it has processes. Its
                // parent can.
                let own = mounted.own.rsplit_once('/').map_or("", |(above, _)| above);
                let dir = dir(&mounted.point, own)?;
                let point = mounted.point.clone();
                (
                    2,
                    vec![Place {
                        controllers: Vec::new(),
                        dir,
                        point,
                    }],
                )
            }
            Mounts::V1(all) => {
                let place = |mounted: &Mounted| -> Result<Place> {
                    Ok(Place {
                        controllers: mounted.controllers.clone(),
                        dir: dir(&mounted.point, &mounted.own)?,
                        point: mounted.point.clone(),
                    })
                };
                let devices = |it: &Mounted| it.controllers.iter().any(|it| it == "devices");
                if !wanted.rootless && !all.iter().any(devices) {
                    return Err(Error::new("mountpoint for devices not found"));
                }
                (1, all.iter().map(place).collect::<Result<_>>()?)
            }
        };
        Ok(Self {
            version,
            places,
            unit: None,
            optional: wanted.rootless && wanted.path.is_empty(),
            rootless: wanted.rootless,
        })
    }
}

/// Removes `.` and `..`, as if the path began at the root; a relative path stays relative.
fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let start = if path.starts_with('/') { "/" } else { "" };
    format!("{start}{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_never_leads_out_of_the_hierarchy() {
        for (path, cleaned) in [
            ("/a/../../../b", "/b"),
            ("../../a//b/.", "a/b"),
            ("/", "/"),
            ("..", ""),
        ] {
            assert_eq!(clean(path), cleaned);
        }
    }
}
