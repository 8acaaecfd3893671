//! Position of a pod's containers in the cgroup tree, for either driver.

use orlop_cgroup::{CgroupPath, Driver};

use super::Error;

/// Prefix of the scopes systemd makes for containers.
const SCOPE_PREFIX: &str = "orlop";

/// The cgroup above a pod's containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupParent {
    driver: Driver,
    /// A directory, or a slice name with systemd.
    name: String,
    path: CgroupPath,
}

impl CgroupParent {
    /// Parses a pod's `cgroup_parent`; `default` replaces an empty one.
    pub fn parse(parent: &str, driver: Driver, default: &str) -> Result<Self, Error> {
        const FIELD: &str = "config.linux.cgroup_parent";
        let parent = if parent.is_empty() { default } else { parent };
        let invalid = |error: orlop_cgroup::PathError| Error::invalid(FIELD, error.to_string());
        match driver {
            Driver::Cgroupfs => {
                let path = CgroupPath::parse(parent).map_err(invalid)?;
                Ok(Self {
                    driver,
                    name: path.to_string(),
                    path,
                })
            }
            Driver::Systemd => {
                let path = CgroupPath::of_slice(parent).map_err(invalid)?;
                let name = if path.is_root() {
                    "-.slice".to_owned()
                } else {
                    path.name().into()
                };
                Ok(Self { driver, name, path })
            }
        }
    }

    /// Returns the directory that a runtime makes for a container's `linux.cgroupsPath`.
    pub fn named_by(oci_path: &str, driver: Driver) -> Option<CgroupPath> {
        match driver {
            Driver::Cgroupfs => CgroupPath::parse(oci_path).ok(),
            Driver::Systemd => {
                let mut parts = oci_path.splitn(3, ':');
                let (slice, prefix, name) = (parts.next()?, parts.next()?, parts.next()?);
                let slice = if slice.is_empty() {
                    "system.slice"
                } else {
                    slice
                };
                let scope = match (prefix, name.strip_suffix(".slice").is_some()) {
                    (_, true) => name.to_owned(),
                    ("", false) => format!("{name}.scope"),
                    (prefix, false) => format!("{prefix}-{name}.scope"),
                };
                CgroupPath::of_slice(slice).ok()?.child(&scope).ok()
            }
        }
    }

    /// Returns the cgroup's own path, where kubelets set the pod's limits.
    pub fn path(&self) -> &CgroupPath {
        &self.path
    }

    /// Returns the cgroup driver.
    #[cfg(test)]
    pub fn driver(&self) -> Driver {
        self.driver
    }

    /// Returns the `linux.cgroupsPath` of a container in it.
    pub fn oci_path(&self, container_id: &str) -> String {
        match self.driver {
            Driver::Cgroupfs if self.path.is_root() => format!("/{container_id}"),
            Driver::Cgroupfs => format!("{}/{container_id}", self.name),
            Driver::Systemd => format!("{}:{SCOPE_PREFIX}:{container_id}", self.name),
        }
    }

    /// Returns the directory that a container's runtime makes from [`oci_path`](Self::oci_path).
    pub fn container_path(&self, container_id: &str) -> Result<CgroupPath, Error> {
        let name = match self.driver {
            Driver::Cgroupfs => container_id.to_owned(),
            Driver::Systemd => format!("{SCOPE_PREFIX}-{container_id}.scope"),
        };
        self.path
            .child(&name)
            .map_err(|error| Error::invalid("container_id", error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_hold_containers_by_id() {
        let parent =
            CgroupParent::parse("/kubepods/burstable/pod1/", Driver::Cgroupfs, "/orlop").unwrap();
        assert_eq!(parent.oci_path("c1"), "/kubepods/burstable/pod1/c1");
        assert_eq!(
            parent.container_path("c1").unwrap().as_str(),
            "/kubepods/burstable/pod1/c1"
        );
    }

    #[test]
    fn a_path_of_a_specification_is_found_again() {
        for (driver, parent) in [
            (Driver::Cgroupfs, "/kubepods/pod1"),
            (Driver::Systemd, "kubepods-pod1.slice"),
        ] {
            let parent = CgroupParent::parse(parent, driver, "").unwrap();
            assert_eq!(
                CgroupParent::named_by(&parent.oci_path("c1"), driver),
                Some(parent.container_path("c1").unwrap())
            );
        }
        assert_eq!(CgroupParent::named_by("/a/../b", Driver::Cgroupfs), None);
        assert_eq!(CgroupParent::named_by("a.slice:b", Driver::Systemd), None);
    }

    #[test]
    fn slices_hold_scopes() {
        let parent =
            CgroupParent::parse("kubepods-pod1.slice", Driver::Systemd, "system.slice").unwrap();
        assert_eq!(parent.oci_path("c1"), "kubepods-pod1.slice:orlop:c1");
        assert_eq!(
            parent.container_path("c1").unwrap().as_str(),
            "/kubepods.slice/kubepods-pod1.slice/orlop-c1.scope"
        );
    }

    #[test]
    fn an_empty_parent_is_the_default() {
        let parent = CgroupParent::parse("", Driver::Cgroupfs, "/orlop").unwrap();
        assert_eq!(parent.path().as_str(), "/orlop");
    }

    #[test]
    fn a_parent_of_the_wrong_driver_or_outside_the_tree_is_refused() {
        for (parent, driver) in [
            ("/kubepods/pod1", Driver::Systemd),
            ("/a/../../etc", Driver::Cgroupfs),
        ] {
            let error = CgroupParent::parse(parent, driver, "/").unwrap_err();
            assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
            assert!(
                error
                    .to_string()
                    .starts_with("config.linux.cgroup_parent: "),
                "{error}"
            );
        }
    }
}
