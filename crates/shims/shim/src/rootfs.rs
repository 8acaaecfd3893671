//! The root filesystem of a task, as the shim gets it: a mount on this machine, or an image that the guest pulls.

use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use orlop_containerd_api::types::Mount;
use serde_json::json;

use crate::error::{Error, Result};
use crate::spec::Spec;

/// The mount type by which Kata's shims know that nothing is mounted on this machine, and the option with the
/// alternative (`KataVirtualVolume`).
const IN_GUEST: &str = "fuse.nydus-overlayfs";
const VOLUME: &str = "io.katacontainers.volume=";
/// The name of the pause image that guests contain for the pod's own task.
const PAUSE: &str = "pause";

/// Returns a bind mount of a directory of this machine.
pub(crate) fn bind(source: &Path) -> Mount {
    Mount {
        r#type: "bind".into(),
        source: source.to_string_lossy().into_owned(),
        options: ["rbind", "rw"].map(str::to_owned).to_vec(),
        ..Mount::default()
    }
}

/// Returns the mount for an image that the guest pulls.
pub(crate) fn in_guest(container: &Spec) -> Result<Mount> {
    let name = container.image().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| {
        Error::Failed("the specification does not name the image that the guest must pull".into())
    })?;
    Ok(image(name))
}

/// Returns the mount for the pause image that guests contain for a pod's own task.
pub(crate) fn of_sandbox() -> Mount {
    image(PAUSE)
}

fn image(name: &str) -> Mount {
    // Shims add annotations to the metadata, and fail without it.
    let volume = json!({
        "volume_type": "image_guest_pull",
        "source": name,
        "fs_type": "overlay",
        "options": [],
        "image_pull": {"metadata": {"containerd.io/snapshot/cri.image-ref": name}},
    });
    let encoded = BASE64_STANDARD.encode(volume.to_string());
    Mount {
        r#type: IN_GUEST.into(),
        source: "overlay".into(),
        options: vec![format!("{VOLUME}{encoded}")],
        ..Mount::default()
    }
}
