//! What a task's files are, as a shim is told: a mount of this machine's, or an image that its guest
//! pulls by itself.

use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use crate::error::{Error, Result};
use crate::proto::Writer;
use crate::spec::Spec;

/// By this type shims of Kata's know that there is nothing to be mounted on this machine, and by this
/// option what is to be done instead (`KataVirtualVolume`).
const IN_GUEST: &str = "fuse.nydus-overlayfs";
const VOLUME: &str = "io.katacontainers.volume=";
/// What guests have in them for the pod itself is called so.
const PAUSE: &str = "pause";

/// A mount, as `containerd.types.Mount` has it.
#[derive(Debug)]
pub(crate) struct Rootfs {
    kind: &'static str,
    source: String,
    options: Vec<String>,
}

impl Rootfs {
    /// A directory of this machine.
    pub(crate) fn bind(source: &Path) -> Self {
        Self {
            kind: "bind",
            source: source.to_string_lossy().into_owned(),
            options: ["rbind", "rw"].map(str::to_owned).to_vec(),
        }
    }

    /// The image of a container, which its guest pulls.
    pub(crate) fn in_guest(container: &Spec) -> Result<Self> {
        let image = container.image().filter(|image| !image.is_empty());
        let image = image.ok_or_else(|| {
            Error::Failed(
                "the specification does not name the image that the guest must pull".into(),
            )
        })?;
        Ok(Self::image(image))
    }

    /// The same for a pod's own task.
    pub(crate) fn of_sandbox() -> Self {
        Self::image(PAUSE)
    }

    fn image(name: &str) -> Self {
        // Shims add annotations to the metadata, and fail without.
        let volume = json!({
            "volume_type": "image_guest_pull",
            "source": name,
            "fs_type": "overlay",
            "options": [],
            "image_pull": {"metadata": {"containerd.io/snapshot/cri.image-ref": name}},
        });
        let encoded = BASE64_STANDARD.encode(volume.to_string());
        Self {
            kind: IN_GUEST,
            source: "overlay".into(),
            options: vec![format!("{VOLUME}{encoded}")],
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mount = Writer::default().text(1, self.kind).text(2, &self.source);
        let options = self.options.iter();
        options
            .fold(mount, |mount, option| mount.text(4, option))
            .done()
    }
}
