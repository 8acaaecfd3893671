//! Limits, written with the files of the cgroup version in use.

mod v1;
mod v2;
mod values;

use orlop_oci_types::Resources;

pub(super) use v2::swap_alone;
pub(super) use values::{need_a_domain, need_controllers, some};

use super::dirs::Dirs;
use crate::error::{Error, Result};

/// Sets limits. Absent values stay unchanged, and so does 0 if it is not a valid limit.
pub(super) fn set(dirs: &Dirs<'_>, resources: &Resources) -> Result<()> {
    check(resources, if dirs.is_v2() { 2 } else { 1 })?;
    if dirs.is_v2() {
        v2::set(dirs, resources)
    } else {
        v1::set(dirs, resources)
    }
}

/// Refuses values that no cgroup of this version supports.
pub(super) fn check(resources: &Resources, version: u8) -> Result<()> {
    if let Some(swappiness) = resources.memory.as_ref().and_then(|it| it.swappiness)
        && version == 1
        && (101..u64::MAX).contains(&swappiness)
    {
        return Err(Error::new(format!(
            "invalid memory swappiness value: {swappiness} (valid range is 0-100)"
        )));
    }
    if version == 1 && !resources.unified.is_empty() {
        return Err(Error::new(
            "invalid configuration: cannot use unified on cgroup v1",
        ));
    }
    if version == 2 {
        if let Some(memory) = &resources.memory {
            v2::swap_alone(memory)?;
        }
        if let Some(file) = resources.unified.keys().find(|it| it.contains('/')) {
            return Err(Error::new(format!(
                "unified resource {file:?} must be a file name (no slashes)"
            )));
        }
    }
    Ok(())
}

/// Refuses limits below the current usage, if requested: cgroup v2 would kill processes instead.
pub(super) fn refuse_what_is_in_use(dirs: &Dirs<'_>, resources: &Resources) -> Result<()> {
    match (
        dirs.is_v2().then(|| dirs.find("")).flatten(),
        &resources.memory,
    ) {
        (Some(dir), Some(memory)) => v2::refuse_what_is_in_use(dir, memory),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
