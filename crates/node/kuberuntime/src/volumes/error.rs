//! Errors of a pod's volumes.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Errors of a pod's volumes.
#[derive(Debug, Error)]
pub(crate) enum VolumeError {
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("volume {volume:?}: {why}")]
    Volume { volume: String, why: String },
    #[error("hostPath type check failed: {path} is not a {wanted}")]
    HostPathType { path: String, wanted: &'static str },
    #[error("mount {mount:?}: {why}")]
    Mount { mount: String, why: String },
}

impl VolumeError {
    pub(super) fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            doing,
            path: path.to_owned(),
            source,
        }
    }

    pub(super) fn volume(volume: &str, why: impl Into<String>) -> Self {
        Self::Volume {
            volume: volume.to_owned(),
            why: why.into(),
        }
    }

    pub(super) fn mount(mount: &str, why: impl Into<String>) -> Self {
        Self::Mount {
            mount: mount.to_owned(),
            why: why.into(),
        }
    }
}
