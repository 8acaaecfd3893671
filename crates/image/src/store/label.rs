//! The SELinux label of what layers hold.
//!
//! Containers see layers with the label of the mount over them, but the kernel asks for that of the file
//! beneath when a program that it maps changes what it may do with its memory.
//!
//! Layers are made in directories that have the label, and inherit it. Those that were made before the node had it are
//! labelled when they are used first, so that a store opens at once however much is in it.

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use orlop_disk::{Step, Walk};
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags, XattrFlags, getxattr, open, openat, setxattr};
use rustix::io::Errno;

use super::Layout;
use crate::{Error, Result};

const ATTRIBUTE: &str = "security.selinux";

/// The longest label that is compared.
const LONGEST_LABEL: usize = 4096;

/// The label of a store's layers.
pub(super) struct LayerLabel {
    label: String,
    /// Held while a layer is labelled: others that need the same one then find it done.
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

    /// Labels the directories in which layers are made, so that what is made from now on inherits the label; and
    /// downloads that were broken off, which may become layers as they are. Blocks.
    pub(super) fn begin(&self, layout: &Layout) {
        let ingest = layout.ingest();
        for dir in [&layout.tmp(), &ingest, &layout.replaced(), &layout.layers()] {
            let labelled = open_dir(dir).and_then(|top| {
                if *dir == ingest {
                    label_all(&top, self.bytes(), &mut set)
                } else {
                    label_one(top.as_fd(), self.bytes())
                }
            });
            let Err(errno) = labelled else { continue };
            tracing::warn!(
                path = %dir.display(),
                label = self.label,
                error = %errno,
                "could not label a directory of the image store: SELinux may keep containers from their layers; \
                 put the store on a file system with extended attributes, and see that the node's policy knows the \
                 label and lets this program set it",
            );
            if is_refused_everywhere(errno) {
                return;
            }
        }
    }

    /// Labels a layer, unless it has the label. Blocks.
    pub(super) fn give(&self, layer: &Path) -> Result<()> {
        let given = open_dir(layer).and_then(|layer| {
            if has(layer.as_fd(), self.bytes()) {
                return Ok(());
            }
            let _turn = self.turn.lock();
            label_all(&layer, self.bytes(), &mut set)
        });
        match given {
            // The former has been told at the start; whoever needs a layer that is gone says so.
            Err(errno) if is_refused_everywhere(errno) || errno == Errno::NOENT => Ok(()),
            given => given.map_err(|errno| Error::at("labelling", layer, errno)),
        }
    }

    fn bytes(&self) -> &[u8] {
        self.label.as_bytes()
    }
}

/// Whether all files would give that: the policy does not know the label, or the file system has none.
fn is_refused_everywhere(errno: Errno) -> bool {
    matches!(errno, Errno::INVAL | Errno::OPNOTSUPP)
}

type Set<'a> = &'a mut dyn FnMut(BorrowedFd<'_>, &[u8]) -> rustix::io::Result<()>;

/// The directory itself comes last: once it has the label, all has.
fn label_all(top: &OwnedFd, label: &[u8], set: Set<'_>) -> rustix::io::Result<()> {
    if has(top.as_fd(), label) {
        return Ok(());
    }
    let mut walk = Walk::new(top)?;
    while let Some(step) = walk.next()? {
        let Step::Entry(entry) = step else { continue };
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match openat(walk.here(), &entry.name, flags, Mode::empty()) {
            Err(Errno::NOENT) => continue,
            file => file?,
        };
        // An earlier walk may have come so far.
        if !has(file.as_fd(), label) {
            set(file.as_fd(), label)?;
        }
        match walk.enter(&entry.name) {
            // No directory, or gone.
            Ok(()) | Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    set(top.as_fd(), label)
}

fn label_one(file: BorrowedFd<'_>, label: &[u8]) -> rustix::io::Result<()> {
    if has(file, label) {
        return Ok(());
    }
    set(file, label)
}

/// Whether a file has the label. What inherits it has the SELinux user of its maker, which counts for nothing here.
fn has(file: BorrowedFd<'_>, label: &[u8]) -> bool {
    let mut found = [0; LONGEST_LABEL];
    getxattr(name(file), ATTRIBUTE, &mut found).is_ok_and(|length| {
        let found = found.get(..length).unwrap_or_default();
        without_user(found.strip_suffix(&[0]).unwrap_or(found)) == without_user(label)
    })
}

/// Role, type and level of a label.
fn without_user(label: &[u8]) -> &[u8] {
    let colon = label.iter().position(|byte| *byte == b':');
    colon.and_then(|at| label.get(at..)).unwrap_or(label)
}

fn set(file: BorrowedFd<'_>, label: &[u8]) -> rustix::io::Result<()> {
    let label = [label, &[0]].concat();
    setxattr(name(file), ATTRIBUTE, &label, XattrFlags::empty())
}

/// A handle that only names a file can be written through by this path alone.
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
