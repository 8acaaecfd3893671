//! ID maps of user namespaces.

use std::process::{Command, Stdio};

use orlop_oci_types::IdMapping;
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

use crate::error::{Error, Result, While, meaning};
use crate::{search, users};

/// Maximum number of bytes of a mapping program's output in an error.
const SAID: u64 = 1024;

/// Writes the ID maps of a process's user namespace. A user who is not root may map only the user's own IDs. For others
/// the programs `newuidmap` and `newgidmap` do it, which know the IDs that root has assigned.
pub(crate) fn write_maps(pid: i32, uids: &[IdMapping], gids: &[IdMapping]) -> Result<()> {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    if !users::is_root() && is_own(gids, gid) {
        // Otherwise a process could drop a group that denies it access (`user_namespaces(7)`).
        let path = format!("/proc/{pid}/setgroups");
        std::fs::write(&path, "deny").doing(|| format!("writing {path}"))?;
    }
    write_one(pid, "uid_map", uids, "newuidmap", is_own(uids, uid))?;
    write_one(pid, "gid_map", gids, "newgidmap", is_own(gids, gid))
}

/// Returns whether this ID is the only one mapped.
fn is_own(maps: &[IdMapping], id: u32) -> bool {
    matches!(maps, [map] if map.host_id == id && map.size == 1)
}

fn write_one(pid: i32, file: &str, maps: &[IdMapping], program: &str, is_own: bool) -> Result<()> {
    let path = format!("/proc/{pid}/{file}");
    let lines = maps
        .iter()
        .map(|map| format!("{} {} {}\n", map.container_id, map.host_id, map.size));
    let text = lines.collect::<Vec<_>>().concat();
    match std::fs::write(&path, text) {
        Err(error)
            if !users::is_root()
                && !is_own
                && Errno::from_io_error(&error) == Some(Errno::PERM) =>
        {
            by_program(pid, maps, program)
        }
        written => written.doing(|| format!("writing {path}")),
    }
}

fn by_program(pid: i32, maps: &[IdMapping], name: &str) -> Result<()> {
    let field = if name == "newuidmap" {
        "linux.uidMappings"
    } else {
        "linux.gidMappings"
    };
    let program = search::program(name).ok_or_else(|| {
        Error::new(format!(
            "{field}: mapping tool not present: {name} is not in PATH (install the package uidmap): {}",
            meaning(Errno::PERM.raw_os_error())
        ))
    })?;
    let numbers = maps
        .iter()
        .flat_map(|map| [map.container_id, map.host_id, map.size]);
    let mut child = Command::new(&program)
        .arg(pid.to_string())
        .args(numbers.map(|number| number.to_string()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .doing(|| format!("{field}: running {}", program.display()))?;
    let mut said = Vec::new();
    if let Some(output) = child.stderr.take() {
        said = orlop_fs::read_start(output, SAID).unwrap_or_default();
    }
    let status = child
        .wait()
        .doing(|| format!("{field}: running {}", program.display()))?;
    if status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&said);
    Err(Error::new(format!(
        "{field}: failed to use {name} for process {pid}: {status}: {}",
        said.trim()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_maps_more_than_itself_needs_help() {
        let map = |host_id, size| IdMapping {
            container_id: 7,
            host_id,
            size,
        };
        assert!(is_own(&[map(1000, 1)], 1000));
        for maps in [
            vec![],
            vec![map(1000, 2)],
            vec![map(1001, 1)],
            vec![map(1000, 1), map(1000, 1)],
        ] {
            assert!(!is_own(&maps, 1000), "{maps:?}");
        }
    }
}
