//! The files of a container, as far as they are mounted in this mount namespace.

use std::path::Path;

use crate::error::Result;
use crate::mounts;
use crate::spec::Spec;

/// Leaves the files of a container: the view in which we were started would be kept with them for as
/// long as we live, or the one who watches over the pod.
pub(super) fn leave(spec: &Spec, bundle: &Path) -> Result<()> {
    let root = spec.root(bundle);
    mounts::drop_own(&mounts::within(root.parent().unwrap_or(&root))?);
    Ok(())
}
