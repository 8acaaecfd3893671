//! What a task's files are, as a shim is told: a mount of this machine's, or an image that its guest
//! pulls by itself.

use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use orlop_containerd_api::types::Mount;
use serde_json::json;

use crate::error::{Error, Result};
use crate::spec::Spec;

/// By this type shims of Kata's know that there is nothing to be mounted on this machine, and by this
/// option what is to be done instead (`KataVirtualVolume`).
const IN_GUEST: &str = "fuse.nydus-overlayfs";
const VOLUME: &str = "io.katacontainers.volume=";
/// What guests have in them for the pod itself is called so.
const PAUSE: &str = "pause";

/// A directory of this machine.
pub(crate) fn bind(source: &Path) -> Mount {
    Mount {
        r#type: "bind".into(),
        source: source.to_string_lossy().into_owned(),
        options: ["rbind", "rw"].map(str::to_owned).to_vec(),
        ..Mount::default()
    }
}

/// The image of a container, which its guest pulls.
pub(crate) fn in_guest(container: &Spec) -> Result<Mount> {
    let name = container.image().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| {
        Error::Failed("the specification does not name the image that the guest must pull".into())
    })?;
    Ok(image(name))
}

/// The same for a pod's own task.
pub(crate) fn of_sandbox() -> Mount {
    image(PAUSE)
}

fn image(name: &str) -> Mount {
    // Shims add annotations to the metadata, and fail without.
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
