//! The SELinux label of layer files.
//!
//! Containers see layers with the label of the mount over them. But the kernel checks the label of the underlying
//! file when a program changes the protection of memory that maps it.
//!
//! Layers are created in directories that have the label, and inherit it. Layers from before the label was configured
//! are labelled at first use, so that a store of any size opens at once.

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use orlop_fs::{Step, Walk, each_below};
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags, XattrFlags, getxattr, open, openat, removexattr, setxattr};
use rustix::io::Errno;

use super::Layout;
use crate::{Error, Result};

const ATTRIBUTE: &str = "security.selinux";

/// Extended attribute of a layer that is being labelled. It is on the directory above the one that containers see.
const UNDER_WAY: &str = "trusted.orlop.labelling";

/// Maximum length of a label that is compared.
const LONGEST_LABEL: usize = 4096;

/// Advice if the SELinux policy prevents labelling.
pub(super) const MEND_POLICY: &str = "install an SELinux policy that defines the label and allows \
    the daemon to set it (for example container-selinux), or set `ro_file` in the \
    contexts/lxc_contexts of the policy to a label that it defines, and restart";

/// The SELinux label of a store's layers.
pub(super) struct LayerLabel {
    label: String,
    /// Held while a layer is labelled. A task that waits for it then finds the layer labelled.
    turn: Mutex<()>,
}

impl LayerLabel {
    pub(super) fn new(label: String) -> Self {
        let turn = Mutex::default();
        Self { label, turn }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.label
    }

    /// Labels the directories in which layers are created, so that new layers inherit the label. Also labels partial
    /// downloads, which may become layers unchanged. Blocks.
    pub(super) fn begin(&self, layout: &Layout) {
        let (ingest, layers) = (layout.ingest(), layout.layers());
        for dir in [&layout.tmp(), &ingest, &layout.replaced(), &layers] {
            let labelled = open_dir(dir).and_then(|top| {
                if *dir == ingest {
                    return label_all(&top, self.bytes(), &mut set);
                }
                if *dir == layers && !has(top.as_fd(), self.bytes()) {
                    doubt_all(&top, self.bytes())?;
                }
                label_one(top.as_fd(), self.bytes())
            });
            let Err(errno) = labelled else { continue };
            tracing::warn!(
                path = %dir.display(),
                label = self.label,
                error = %errno,
                "cannot label a directory of the image store: SELinux may deny containers access to \
                 their layers; use a file system with extended attributes, and an SELinux policy \
                 that defines the label and allows the daemon to set it",
            );
            if is_refused_everywhere(errno) {
                return;
            }
        }
    }

    /// Labels a layer, unless it has the label already. Blocks.
    pub(super) fn give(&self, layer: &Path) -> Result<()> {
        let given = open_dir(layer).and_then(|layer| {
            if is_done(layer.as_fd(), self.bytes()) {
                return Ok(());
            }
            let _turn = self.turn.lock();
            label_all(&layer, self.bytes(), &mut set)
        });
        match given {
            // `begin` has already reported the former, and the use of a missing layer fails by itself.
            Err(errno) if is_refused_everywhere(errno) || errno == Errno::NOENT => Ok(()),
            // A label that cannot be set does not mean that the layer is damaged; a disk error may.
            Err(errno) if let Some(way_out) = way_out(errno) => Err(Error::Unlabelled {
                layer: layer.display().to_string(),
                label: self.label.clone(),
                reason: std::io::Error::from(errno).to_string(),
                way_out,
            }),
            given => given.map_err(|errno| Error::at("labelling", layer, errno)),
        }
    }

    fn bytes(&self) -> &[u8] {
        self.label.as_bytes()
    }
}

/// Returns whether labelling fails for all files: the policy lacks the label, or the file system has no labels.
fn is_refused_everywhere(errno: Errno) -> bool {
    matches!(errno, Errno::INVAL | Errno::OPNOTSUPP)
}

/// Returns advice if the policy or the current state of the disk prevents labelling.
fn way_out(errno: Errno) -> Option<&'static str> {
    match errno {
        Errno::ACCESS | Errno::PERM => Some(MEND_POLICY),
        Errno::ROFS => Some("mount the disk of the image store read-write"),
        Errno::NOSPC | Errno::DQUOT => Some("free space on the disk of the image store"),
        _ => None,
    }
}

type Set<'a> = &'a mut dyn FnMut(BorrowedFd<'_>, &[u8]) -> rustix::io::Result<()>;

/// Labels a directory tree, the top directory last. A mark on the top directory shows that labelling is in progress.
/// Its label alone proves nothing, because a setting can change and change back.
fn label_all(top: &OwnedFd, label: &[u8], set: Set<'_>) -> rustix::io::Result<()> {
    if is_done(top.as_fd(), label) {
        return Ok(());
    }
    begin_work(top.as_fd())?;
    let mut unless_set = |file: BorrowedFd<'_>| {
        // An earlier walk may have labelled it.
        if has(file, label) {
            return Ok(());
        }
        set(file, label)
    };
    each_below(top, &mut unless_set)?;
    unless_set(top.as_fd())?;
    end_work(top.as_fd())
}

/// Marks all layers that have the label as possibly incomplete. An earlier version labelled the parent directory only
/// after it had labelled the whole store.
fn doubt_all(layers: &OwnedFd, label: &[u8]) -> rustix::io::Result<()> {
    let mut walk = Walk::new(layers)?;
    while let Some(step) = walk.next()? {
        let Step::Entry(entry) = step else { continue };
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let layer = match openat(walk.here(), &entry.name, flags, Mode::empty()) {
            Err(Errno::NOENT) => continue,
            layer => layer?,
        };
        if has(layer.as_fd(), label) {
            begin_work(layer.as_fd())?;
        }
    }
    Ok(())
}

/// Returns whether a whole directory tree has the label.
fn is_done(top: BorrowedFd<'_>, label: &[u8]) -> bool {
    has(top, label) && getxattr(name(top), UNDER_WAY, &mut [0; 0]) == Err(Errno::NODATA)
}

fn begin_work(top: BorrowedFd<'_>) -> rustix::io::Result<()> {
    setxattr(name(top), UNDER_WAY, b"1", XattrFlags::empty())
}

fn end_work(top: BorrowedFd<'_>) -> rustix::io::Result<()> {
    match removexattr(name(top), UNDER_WAY) {
        // Another walk finished first.
        Err(Errno::NODATA) => Ok(()),
        ended => ended,
    }
}

fn label_one(file: BorrowedFd<'_>, label: &[u8]) -> rustix::io::Result<()> {
    if has(file, label) {
        return Ok(());
    }
    set(file, label)
}

/// Returns whether a file has the label. Ignores the SELinux user, which new files inherit from their creator.
fn has(file: BorrowedFd<'_>, label: &[u8]) -> bool {
    let mut found = [0; LONGEST_LABEL];
    getxattr(name(file), ATTRIBUTE, &mut found).is_ok_and(|length| {
        let found = found.get(..length).unwrap_or_default();
        without_user(found.strip_suffix(&[0]).unwrap_or(found)) == without_user(label)
    })
}

/// Returns the role, type and level of a label.
fn without_user(label: &[u8]) -> &[u8] {
    let colon = label.iter().position(|byte| *byte == b':');
    colon.and_then(|at| label.get(at..)).unwrap_or(label)
}

fn set(file: BorrowedFd<'_>, label: &[u8]) -> rustix::io::Result<()> {
    let label = [label, &[0]].concat();
    setxattr(name(file), ATTRIBUTE, &label, XattrFlags::empty())
}

/// Returns a path to the file. Attributes of an `O_PATH` descriptor can be set only through such a path.
fn name(file: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

fn open_dir(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    open(path, flags, Mode::empty())
}

#[cfg(test)]
#[path = "label_tests.rs"]
mod tests;
