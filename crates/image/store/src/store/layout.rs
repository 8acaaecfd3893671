//! Paths of files and directories below the image root.

use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags, open};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::{Form, LayerRecord};
use crate::{Digest, Error, Result};
use orlop_fs::remove_tree_at;

/// The directories of an image store.
///
/// ```text
/// ROOT/index.redb            images, layers, manifests, configurations
/// ROOT/leases/OWNER          a lease on layers
/// ROOT/layers/HEX/fs         a layer as a directory for overlayfs
/// ROOT/layers/HEX/fs.erofs   or as an EROFS image, which is mounted at
/// ROOT/mounts/HEX            on first use
/// ROOT/layers/HEX/image      or as an incomplete image of a lazy layer (also `present`, `toc`), which is served at
/// ROOT/lazy/HEX              as if it were complete, and mounted in the same way
/// ROOT/layers/HEX/layer.json its record, to repair the index
/// ROOT/layers/HEX/tape.zst   archive data other than file contents
/// ROOT/blobs/HEX             compressed layers, if they are kept
/// ROOT/ingest/HEX…           running or interrupted downloads
/// ROOT/replaced/HEX-…        old versions of repaired layers, for containers that still use them
/// ROOT/tmp/…                 work in progress; emptied at start
/// ROOT/empty, empty-too      empty lower directories
/// ROOT/running               exists while a process uses the store
/// ```
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    root: PathBuf,
    left: Left,
}

/// Scratch directories that could not be removed when they were dropped.
type Left = Arc<Mutex<Vec<PathBuf>>>;

impl Layout {
    /// Creates the missing directories. Only root has access, because layers contain setuid programs and devices from
    /// untrusted images.
    pub(crate) fn create(root: &Path) -> Result<Self> {
        let layout = Self {
            root: root.to_owned(),
            left: Left::default(),
        };
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        let work = [
            layout.layers(),
            layout.mounts(),
            layout.blobs(),
            layout.ingest(),
            layout.replaced(),
            layout.tmp(),
        ];
        for dir in work.into_iter().chain([layout.empty(), layout.empty_too()]) {
            builder
                .create(&dir)
                .map_err(|error| Error::at("creating", &dir, error))?;
        }
        Ok(layout)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn index(&self) -> PathBuf {
        self.root.join("index.redb")
    }

    pub(crate) fn leases(&self) -> PathBuf {
        self.root.join("leases")
    }

    pub(crate) fn running(&self) -> PathBuf {
        self.root.join("running")
    }

    pub(crate) fn layers(&self) -> PathBuf {
        self.root.join("layers")
    }

    pub(crate) fn layer(&self, key: &Digest) -> PathBuf {
        self.layers().join(key.hex())
    }

    pub(crate) fn layer_fs(&self, key: &Digest) -> PathBuf {
        self.layer(key).join(FS)
    }

    pub(crate) fn layer_image(&self, key: &Digest) -> PathBuf {
        self.layer(key).join(IMAGE)
    }

    /// Returns the directory where lazy layers are served.
    pub(crate) fn lazy(&self) -> PathBuf {
        self.root.join("lazy")
    }

    pub(crate) fn layer_toc(&self, key: &Digest) -> PathBuf {
        self.layer(key).join(TOC)
    }

    pub(crate) fn mounts(&self) -> PathBuf {
        self.root.join("mounts")
    }

    pub(crate) fn mount(&self, key: &Digest) -> PathBuf {
        self.mounts().join(key.hex())
    }

    /// Returns the directory of a layer's files, which is a mount point if the layer is an image file.
    pub(crate) fn files(&self, key: &Digest, form: &Form) -> PathBuf {
        match form {
            Form::Files => self.layer_fs(key),
            Form::Erofs(_) | Form::Lazy(_) => self.mount(key),
        }
    }

    /// Returns the disk space of a layer, including a lazy one.
    pub(crate) fn disk_bytes(&self, layer: &LayerRecord) -> u64 {
        let Form::Lazy(_) = layer.form else {
            return layer.disk_bytes;
        };
        let image = self.layer(&layer.key).join(orlop_lazy::IMAGE);
        std::fs::metadata(image).map_or(0, |look| look.blocks() * 512)
    }

    pub(crate) fn layer_tape(&self, key: &Digest) -> PathBuf {
        self.layer(key).join(TAPE)
    }

    pub(crate) fn blobs(&self) -> PathBuf {
        self.root.join("blobs")
    }

    pub(crate) fn blob(&self, digest: &Digest) -> PathBuf {
        self.blobs().join(digest.hex())
    }

    pub(crate) fn ingest(&self) -> PathBuf {
        self.root.join("ingest")
    }

    pub(crate) fn replaced(&self) -> PathBuf {
        self.root.join("replaced")
    }

    pub(crate) fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    /// Returns an empty lower directory, for images without layers and mounts that need a second lower directory.
    pub(crate) fn empty(&self) -> PathBuf {
        self.root.join("empty")
    }

    /// Returns a second empty directory, because overlayfs does not accept the same directory twice.
    pub(crate) fn empty_too(&self) -> PathBuf {
        self.root.join("empty-too")
    }

    /// Creates a scratch directory.
    pub(crate) fn scratch(&self, name: &str) -> Result<Scratch> {
        self.remove_left();
        let path = self
            .tmp()
            .join(format!("{name}-{:016x}", rand::random::<u64>()));
        let mut builder = std::fs::DirBuilder::new();
        builder
            .mode(0o700)
            .create(&path)
            .map_err(|error| Error::at("creating", &path, error))?;
        Ok(Scratch {
            path,
            left: Arc::clone(&self.left),
            counted: None,
        })
    }

    /// Tries again to remove leftover scratch directories.
    pub(crate) fn remove_left(&self) {
        let left = || self.left.lock();
        let paths = std::mem::take(&mut *left());
        for path in paths {
            if let Err(error) = remove_path(&path) {
                tracing::warn!(path = %path.display(), %error, "still cannot remove a scratch directory");
                left().push(path);
            }
        }
    }
}

/// Directory with the layer's files, in the layer's directory.
pub(crate) const FS: &str = "fs";
/// EROFS image of the layer, in the layer's directory.
pub(crate) const IMAGE: &str = "fs.erofs";
/// Table of contents of a lazy layer, in the layer's directory.
pub(crate) const TOC: &str = "toc";
/// Record of the layer, in the layer's directory.
pub(crate) const RECORD: &str = "layer.json";

/// Tape of the layer, in the layer's directory.
pub(crate) const TAPE: &str = "tape.zst";

/// A scratch directory. Dropping it removes all its content, unless it was moved away.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    left: Left,
    /// Tracks that the directory uses disk space; released after its removal.
    counted: Option<TaskTrackerToken>,
}

impl Scratch {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Attaches a token that tracks how long the directory uses disk space.
    pub(crate) fn counted(mut self, token: TaskTrackerToken) -> Self {
        self.counted = Some(token);
        self
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = remove_path(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove a scratch directory; the next operation tries again");
            let mut left = self.left.lock();
            left.push(std::mem::take(&mut self.path));
        }
    }
}

/// Removes the file or directory tree at `path`.
pub(crate) fn remove_path(path: &Path) -> rustix::io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(rustix::io::Errno::INVAL);
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    remove_tree_at(open(parent, flags, Mode::empty())?, name)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use orlop_testkit::{Scratch as Ground, machine, skip_unless};

    use super::*;

    fn run(program: &str, words: &[&str], path: &Path) {
        let status = Command::new(program).args(words).arg(path).status();
        assert!(status.unwrap().success(), "{program} {words:?}");
    }

    #[test]
    fn what_could_not_be_removed_is_removed_by_the_next_work() {
        skip_unless!(machine::is_root());
        let ground = Ground::new();
        let layout = Layout::create(ground.dir()).unwrap();
        let scratch = layout.scratch("trash").unwrap();
        let path = scratch.path().to_owned();
        let busy = path.join("busy");
        std::fs::create_dir(&busy).unwrap();
        run("mount", &["-t", "tmpfs", "busy"], &busy);
        drop(scratch);
        assert!(path.exists(), "a mount can't be removed");
        drop(layout.scratch("next").unwrap());
        assert!(path.exists());
        run("umount", &[], &busy);
        drop(layout.scratch("next").unwrap());
        assert!(!path.exists());
    }
}
