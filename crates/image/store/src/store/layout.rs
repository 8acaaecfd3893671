//! Where things are below the image root.

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
/// ROOT/leases/OWNER          a claim on layers
/// ROOT/layers/HEX/fs         a layer as overlayfs wants it
/// ROOT/layers/HEX/fs.erofs   or as a file, which is mounted at
/// ROOT/mounts/HEX            once it is used
/// ROOT/layers/HEX/image      or as a file of which parts are not here yet (also `present`, `toc`), which is
/// ROOT/lazy/HEX              there whole, as it were, and mounted likewise
/// ROOT/layers/HEX/layer.json its record, so that the index can be mended
/// ROOT/layers/HEX/tape.zst   what the archive had beside file contents
/// ROOT/blobs/HEX             compressed layers, if they are kept
/// ROOT/ingest/HEX…           downloads in progress or broken off
/// ROOT/replaced/HEX-…        layers that were repaired, for containers that still use the old ones
/// ROOT/tmp/…                 work in progress; emptied at start
/// ROOT/empty, empty-too      lower directories without anything
/// ROOT/running               there while a process uses the store
/// ```
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    root: PathBuf,
    left: Left,
}

/// Scratch directories that could not be removed when their time had come.
type Left = Arc<Mutex<Vec<PathBuf>>>;

impl Layout {
    /// Makes the directories that are missing. Only root may look inside: layers hold setuid
    /// programs and devices of strangers.
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

    /// Where lazy layers are served.
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

    /// Where the files of a layer are, which is to be mounted where it is one file.
    pub(crate) fn files(&self, key: &Digest, form: &Form) -> PathBuf {
        match form {
            Form::Files => self.layer_fs(key),
            Form::Erofs(_) | Form::Lazy(_) => self.mount(key),
        }
    }

    /// Bytes that a layer takes, also while it comes.
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

    /// An empty lower directory, for images without layers and mounts that need a second one.
    pub(crate) fn empty(&self) -> PathBuf {
        self.root.join("empty")
    }

    /// Another one: overlayfs doesn't take the same directory twice.
    pub(crate) fn empty_too(&self) -> PathBuf {
        self.root.join("empty-too")
    }

    /// Makes a directory for work in progress.
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

    /// Tries again what could not be removed.
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

/// The layer's files, in its directory.
pub(crate) const FS: &str = "fs";
/// The layer's files as one, in its directory.
pub(crate) const IMAGE: &str = "fs.erofs";
/// The table of contents of a layer that comes as it is read, in its directory.
pub(crate) const TOC: &str = "toc";
/// The layer's record, in its directory.
pub(crate) const RECORD: &str = "layer.json";

/// The layer's tape, in its directory.
pub(crate) const TAPE: &str = "tape.zst";

/// A directory for work in progress; removed with all in it unless it is moved away.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    left: Left,
    /// Given back once it is removed.
    counted: Option<TaskTrackerToken>,
}

impl Scratch {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Has somebody know until when it takes room.
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

/// Removes whatever is at `path`.
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
