//! A container's mounts in this process's mount namespace.

use std::path::Path;

use crate::error::Result;
use crate::mounts;
use crate::spec::Spec;

/// Unmounts the container's files here. Otherwise they would stay mounted as long as this process or the supervisor
/// lives.
pub(super) fn leave(spec: &Spec, bundle: &Path) -> Result<()> {
    let root = spec.root(bundle);
    mounts::drop_own(&mounts::within(root.parent().unwrap_or(&root))?);
    Ok(())
}
