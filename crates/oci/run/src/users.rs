//! Restrictions for callers who are not root on the host.

use std::sync::OnceLock;

use orlop_oci_types::{IdMapping, Linux, NamespaceKind, Process, Spec};

use crate::error::{Error, Result};

/// The inode number of the initial user namespace (`PROC_USER_INIT_INO` of the kernel).
const FIRST_USERS: u64 = 0xefff_fffd;

/// Returns whether this process is root in its user namespace.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns whether this process's user namespace is not the host's.
pub(crate) fn are_not_the_hosts() -> bool {
    static ARE_NOT: OnceLock<bool> = OnceLock::new();
    *ARE_NOT.get_or_init(|| {
        rustix::fs::stat("/proc/self/ns/user").is_ok_and(|look| look.st_ino != FIRST_USERS)
    })
}

/// Refuses settings that a caller who is not root cannot use.
pub(crate) fn check(spec: &Spec, linux: &Linux) -> Result<()> {
    let namespaces = &linux.namespaces;
    let Some(users) = namespaces.iter().find(|it| it.kind == NamespaceKind::User) else {
        return Err(Error::new(
            "linux.namespaces: rootless container requires user namespaces",
        ));
    };
    if !linux.net_devices.is_empty() {
        return Err(Error::new(
            "linux.netDevices: network devices are not supported for rootless containers",
        ));
    }
    if !users.path.is_empty() {
        return Ok(());
    }
    for (maps, field, what) in [
        (&linux.uid_mappings, "linux.uidMappings", "UID"),
        (&linux.gid_mappings, "linux.gidMappings", "GID"),
    ] {
        if maps.is_empty() {
            return Err(Error::new(format!(
                "{field}: rootless containers requires at least one {what} mapping"
            )));
        }
    }
    for (index, mount) in spec.mounts.iter().enumerate() {
        let maps = !mount.uid_mappings.is_empty() || !mount.gid_mappings.is_empty();
        if maps
            || mount
                .options
                .iter()
                .any(|it| it == "idmap" || it == "ridmap")
        {
            return Err(Error::new(format!(
                "mounts[{index}]: id-mapped mounts are not supported for rootless containers"
            )));
        }
        for option in &mount.options {
            let unmapped = [("uid=", &linux.uid_mappings), ("gid=", &linux.gid_mappings)]
                .into_iter()
                .find(|(name, maps)| {
                    let id = option.strip_prefix(name).and_then(|id| id.parse().ok());
                    id.is_some_and(|id| !maps_id(maps, id))
                });
            if let Some((name, _)) = unmapped {
                let what = &name[..3];
                return Err(Error::new(format!(
                    "mounts[{index}].options: cannot specify {name} mount options for unmapped {what} in rootless containers"
                )));
            }
        }
    }
    Ok(())
}

/// Refuses a process whose user has no mapping in a new user namespace, or one with groups that need privileges.
pub(crate) fn check_process(process: &Process, linux: &Linux) -> Result<()> {
    let user = &process.user;
    if !is_root() && !user.additional_gids.is_empty() {
        return Err(Error::new(
            "process.user.additionalGids: unable to setup user: cannot set any additional groups in a rootless container",
        ));
    }
    let namespaces = &linux.namespaces;
    if !namespaces
        .iter()
        .any(|it| it.kind == NamespaceKind::User && it.path.is_empty())
    {
        return Ok(());
    }
    for (id, maps, what) in [
        (user.uid, &linux.uid_mappings, "uid"),
        (user.gid, &linux.gid_mappings, "gid"),
    ] {
        // Missing maps are reported for the namespace instead.
        if !maps.is_empty() && !maps_id(maps, id) {
            return Err(Error::new(format!(
                "process.user.{what}: unable to setup user: cannot set {what} to unmapped user in user namespace"
            )));
        }
    }
    Ok(())
}

/// Returns whether an ID of a user namespace is mapped.
fn maps_id(maps: &[IdMapping], id: u32) -> bool {
    maps.iter().any(|map| {
        id.checked_sub(map.container_id)
            .is_some_and(|below| below < map.size)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_at_the_ends_of_a_mapping_are_told_from_those_beside_it() {
        let maps = [IdMapping {
            container_id: 10,
            host_id: 1000,
            size: 5,
        }];
        for (id, is) in [(9, false), (10, true), (14, true), (15, false)] {
            assert_eq!(maps_id(&maps, id), is, "{id}");
        }
        let all = [IdMapping {
            container_id: 1,
            host_id: 1,
            size: u32::MAX,
        }];
        assert!(maps_id(&all, u32::MAX));
        assert!(!maps_id(&all, 0));
    }
}
