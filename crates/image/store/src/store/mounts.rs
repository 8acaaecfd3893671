//! Mounts layers that are image files. Each is mounted at first use, until it is removed or the store is closed while
//! no container uses it.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{FsOpenFlags, MoveMountFlags, UnmountFlags, fsopen, move_mount, unmount};

use super::label::{LayerLabel, MEND_POLICY};
use super::unmount::{leave, sweep};
use super::{Form, Sealed, Store, StoreForm};
use crate::{Digest, Error, Result, verity};

impl Store {
    /// Returns the directory with a layer's files, after it has labelled and mounted the layer. Blocks.
    pub(crate) fn mounted(&self, key: &Digest, form: &Form) -> Result<PathBuf> {
        if let Some(label) = &self.label {
            label.give(&self.layout.layer(key))?;
        }
        let dir = self.layout.files(key, form);
        if *form == Form::Files {
            return Ok(dir);
        }
        let _turn = self.mounting.lock();
        if !is_mounted(&dir)? {
            make_dir(&dir)?;
            let mount = self.detached(key, form)?;
            put(&mount, &dir, MoveMountFlags::empty())?;
        }
        Ok(dir)
    }

    /// Creates a mount of a layer that is not attached yet.
    fn detached(&self, key: &Digest, form: &Form) -> Result<OwnedFd> {
        match form {
            Form::Erofs(sealed) => self.mount_sealed(key, sealed),
            _ => self.mount_lazy(key),
        }
    }

    fn mount_lazy(&self, key: &Digest) -> Result<OwnedFd> {
        let path = self.layout.lazy().join(key.hex());
        let file = fs::File::open(&path).map_err(|error| Error::at("opening", &path, error))?;
        let mount = orlop_erofs::mount::mount(file.as_fd(), self.mount_label());
        mount.map_err(|error| Error::at("mounting", &path, error))
    }

    /// Replaces the lazy mount of a layer with a mount of the complete image, for new users. Current users keep the
    /// old mount.
    pub(super) fn mount_anew(&self, key: &Digest, form: &Form) -> Result<()> {
        let dir = self.layout.mount(key);
        let _turn = self.mounting.lock();
        if !is_mounted(&dir)? {
            return Ok(());
        }
        let mount = self.detached(key, form)?;
        // From Linux 6.5 on, the new mount replaces the old one; before, it covers the old one.
        match put(&mount, &dir, MoveMountFlags::MOVE_MOUNT_BENEATH) {
            Ok(()) => unmount(&dir, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
                .map_err(|error| Error::at("unmounting", &dir, error)),
            Err(_) => put(&mount, &dir, MoveMountFlags::empty()),
        }
    }

    /// Unmounts the lazy layers of a server that is gone. Blocks.
    pub(crate) fn unmount_lazy(&self) -> Result<()> {
        let keys: Vec<Digest> = self.state().layers.keys().copied().collect();
        for key in keys {
            if self.layout.layer_toc(&key).exists() {
                self.unmount(&key)?;
            }
        }
        Ok(())
    }

    fn mount_sealed(&self, key: &Digest, sealed: &Sealed) -> Result<OwnedFd> {
        let path = self.layout.layer_image(key);
        let damaged = |reason: String| Error::Damaged {
            layer: *key,
            reason,
        };
        let file = fs::File::open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => damaged("its file is missing".to_owned()),
            _ => Error::at("opening", &path, error),
        })?;
        let found = file
            .metadata()
            .map_err(|error| Error::at("checking", &path, error))?;
        if found.len() != sealed.bytes {
            let (is, was) = (found.len(), sealed.bytes);
            return Err(damaged(format!("its file has {is} bytes instead of {was}")));
        }
        if let Some(seal) = &sealed.verity {
            let measured =
                verity::measure(&file).map_err(|error| Error::at("measuring", &path, error))?;
            if measured.as_ref() != Some(seal) {
                let found = measured.unwrap_or_else(|| "none".to_owned());
                return Err(damaged(format!(
                    "its file has the fs-verity digest {found}, not {seal}"
                )));
            }
        }
        let label = self.mount_label();
        orlop_erofs::mount::mount(file.as_fd(), label).map_err(|error| match error.raw_os_error() {
            Some(libc::EINVAL) if label.is_some() && is_sound(&file) => Error::Unlabelled {
                layer: format!("layer {key}"),
                label: label.unwrap_or_default().to_owned(),
                reason: "the kernel rejects the label".to_owned(),
                way_out: MEND_POLICY,
            },
            Some(libc::EUCLEAN | libc::EBADMSG | libc::EINVAL) => {
                damaged(format!("it cannot be mounted: {error}"))
            }
            _ => Error::at("mounting", &path, error),
        })
    }

    fn mount_label(&self) -> Option<&str> {
        self.label.as_ref().map(LayerLabel::as_str)
    }

    /// Unmounts a layer if it is mounted. Containers that use it keep it. Blocks.
    pub(super) fn unmount(&self, key: &Digest) -> Result<()> {
        let _turn = self.mounting.lock();
        leave(&self.layout.mount(key))
    }

    /// Unmounts the layers that no container uses.
    pub(super) fn unmount_idle(&self) {
        let state = self.state();
        let leased = |key: &Digest| {
            state
                .leases
                .values()
                .any(|lease| lease.layers.contains(key))
        };
        if let Err(error) = sweep(&self.layout.mounts(), leased) {
            tracing::warn!(%error, "cannot unmount unused layers; the next start unmounts them");
        }
    }
}

/// Returns whether the kernel can mount the file without a label.
fn is_sound(file: &fs::File) -> bool {
    orlop_erofs::mount::mount(file.as_fd(), None).is_ok()
}

fn make_dir(dir: &Path) -> Result<()> {
    match fs::create_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(Error::at("creating", dir, error))
        }
        _ => Ok(()),
    }
}

/// Attaches a mount.
fn put(mount: &OwnedFd, dir: &Path, how: MoveMountFlags) -> Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | how;
    move_mount(mount, c"", CWD, dir, flags)
        .map_err(|error| Error::at("mounting a layer at", dir, error))
}

/// Checks whether this node supports the form for new layers.
pub(crate) fn check(form: StoreForm) -> Result<()> {
    match form {
        StoreForm::Files => Ok(()),
        StoreForm::Erofs => kernel_has("erofs"),
    }
}

fn kernel_has(kind: &str) -> Result<()> {
    if is_known(kind) {
        return Ok(());
    }
    Err(Error::Unsupported(format!(
        "cannot store layers as file system images, because the kernel has no file system {kind}; \
         set images.store = \"files\""
    )))
}

/// Returns whether the kernel supports a file system, and loads its module if necessary. Other problems show when a
/// layer is mounted.
pub(crate) fn is_known(kind: &str) -> bool {
    let opened = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC);
    !matches!(opened, Err(Errno::NODEV))
}

fn is_mounted(dir: &Path) -> Result<bool> {
    let look = |path: &Path| match fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found.dev())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::at("checking", path, error)),
    };
    let here = look(dir)?;
    Ok(here.is_some() && here != look(dir.parent().unwrap_or(dir))?)
}

#[cfg(test)]
mod tests {
    use orlop_testkit::{machine, skip, skip_unless};

    use super::*;
    use crate::store::{LayerRecord, Soundness};
    use crate::verify;

    /// A record with this length and no fs-verity digest.
    fn sealed(bytes: &[u8]) -> Sealed {
        let bytes = bytes.len() as u64;
        Sealed {
            bytes,
            verity: None,
            digest: None,
        }
    }

    #[test]
    fn a_layer_whose_label_the_kernel_does_not_take_is_not_damaged() {
        skip_unless!(machine::is_root());
        // The kernel may refuse to mount image files from a tmpfs.
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        // No policy defines this label, and kernels without SELinux reject all labels.
        let label = "no_user:no_role:no_type:s0".to_owned();
        let store = Store::open(dir.path(), Some(label)).unwrap();
        let key = Digest::of(b"layer");
        fs::create_dir(store.layout.layer(&key)).unwrap();
        let path = store.layout.layer_image(&key);
        let file = fs::File::create_new(&path).unwrap();
        let image = orlop_erofs::Image::create(file, orlop_erofs::Options::default()).unwrap();
        image.finish().unwrap();
        let sound = fs::read(&path).unwrap();
        if !is_known("erofs") || !is_sound(&fs::File::open(&path).unwrap()) {
            skip!("this kernel mounts no images from files");
        }
        let refused = store.mount_sealed(&key, &sealed(&sound)).unwrap_err();
        assert!(matches!(&refused, Error::Unlabelled { .. }), "{refused}");
        assert!(refused.to_string().contains("no_type"), "{refused}");
        let layer = LayerRecord {
            key,
            diff_id: Digest::of(b"archive"),
            archive_bytes: 0,
            bytes: 0,
            disk_bytes: 0,
            inodes: 0,
            implicit: Vec::new(),
            blob: None,
            replayable: false,
            created: 0,
            form: Form::Erofs(sealed(&sound)),
        };
        let verdict = verify::check(&store, &layer);
        assert!(matches!(&verdict, Soundness::Unlabelled(why) if why.contains("no_type")));

        fs::write(&path, vec![0; sound.len()]).unwrap();
        let damaged = store.mount_sealed(&key, &sealed(&sound)).unwrap_err();
        assert!(matches!(&damaged, Error::Damaged { .. }), "{damaged}");
        let verdict = verify::check(&store, &layer);
        assert!(matches!(verdict, Soundness::Broken(_)));
    }

    #[test]
    fn a_file_system_that_the_kernel_lacks_is_told_with_the_way_out() {
        kernel_has("tmpfs").unwrap();
        let refused = kernel_has("no-such-fs").unwrap_err().to_string();
        assert!(refused.contains("images.store = \"files\""), "{refused}");
    }
}
