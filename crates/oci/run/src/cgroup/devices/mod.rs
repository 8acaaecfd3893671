//! Access of a container to devices.

mod attach;
mod program;
mod rules;

use orlop_oci_types::Resources;

use super::dirs::Dirs;
use super::place::Wanted;
use crate::error::{Error, Result};
pub(super) use rules::{Kind, Rules};

/// Allows a container to use its devices and denies all others.
pub(super) fn set(dirs: &Dirs<'_>, resources: &Resources, wanted: &Wanted<'_>) -> Result<()> {
    let rules = Rules::of(&resources.devices, wanted.devices)?;
    let result = if dirs.is_v2() {
        version_2(dirs, &rules)
    } else {
        version_1(dirs, &rules)
    };
    match result {
        // A caller with few privileges cannot make device nodes, nor use those of the host.
        Err(_) if dirs.is_rootless() || is_in_user_namespace() => Ok(()),
        result => result,
    }
}

/// Uses few writes: allows or denies all devices first, then writes the exceptions.
fn version_1(dirs: &Dirs<'_>, rules: &Rules) -> Result<()> {
    let dir = dirs.of("devices")?;
    let (first, then) = if rules.all_but {
        ("devices.allow", "devices.deny")
    } else {
        ("devices.deny", "devices.allow")
    };
    dir.write(first, "a")?;
    if rules.exceptions.is_empty() {
        return Ok(());
    }
    let file = dir.file(then)?;
    for (which, access) in &rules.exceptions {
        file.write(format_args!("{which} {access}"))?;
    }
    Ok(())
}

fn version_2(dirs: &Dirs<'_>, rules: &Rules) -> Result<()> {
    let dir = dirs.of("devices")?;
    attach::replace(dir, &program::of(rules)).map_err(|(what, errno)| {
        let reason = crate::error::meaning(errno.raw_os_error());
        Error::new(format!("failed to call {what}: {reason}"))
    })
}

/// Returns whether this process is in a user namespace other than the host's.
fn is_in_user_namespace() -> bool {
    let map = orlop_fs::read_kernel_text("/proc/self/uid_map").unwrap_or_default();
    let mut numbers = map.split_whitespace();
    !map.is_empty() && !numbers.by_ref().eq(["0", "0", "4294967295"])
}
