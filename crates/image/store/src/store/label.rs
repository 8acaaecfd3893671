//! The SELinux label of what layers hold.
//!
//! Containers see layers with the label of the mount over them, but the kernel asks for that of the file
//! beneath when a program that it maps changes what it may do with its memory.
//!
//! Layers are made in directories that have the label, and inherit it. Those that were made before the node had it are
//! labelled when they are used first, so that a store opens at once however much is in it.

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use orlop_fs::{Step, Walk, each_below};
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags, XattrFlags, getxattr, open, openat, removexattr, setxattr};
use rustix::io::Errno;

use super::Layout;
use crate::{Error, Result};

const ATTRIBUTE: &str = "security.selinux";

/// What a layer has that is being labelled. It is beside the directory that containers see.
const UNDER_WAY: &str = "trusted.orlop.labelling";

/// The longest label that is compared.
const LONGEST_LABEL: usize = 4096;

/// What is to be done where the policy is in the way.
pub(super) const MEND_POLICY: &str = "install an SELinux policy that defines the label and allows \
    the daemon to set it (for example container-selinux), or set `ro_file` in the \
    contexts/lxc_contexts of the policy to a label that it defines, and restart";

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

    /// Labels a layer, unless it has the label. Blocks.
    pub(super) fn give(&self, layer: &Path) -> Result<()> {
        let given = open_dir(layer).and_then(|layer| {
            if is_done(layer.as_fd(), self.bytes()) {
                return Ok(());
            }
            let _turn = self.turn.lock();
            label_all(&layer, self.bytes(), &mut set)
        });
        match given {
            // The former has been told at the start; whoever needs a layer that is gone says so.
            Err(errno) if is_refused_everywhere(errno) || errno == Errno::NOENT => Ok(()),
            // What keeps a layer from its label says nothing of what is in it; a disk that fails does.
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

/// Whether all files would give that: the policy does not know the label, or the file system has none.
fn is_refused_everywhere(errno: Errno) -> bool {
    matches!(errno, Errno::INVAL | Errno::OPNOTSUPP)
}

/// What is to be done where the policy, or the disk as it is now, keeps this program from setting the label.
fn way_out(errno: Errno) -> Option<&'static str> {
    match errno {
        Errno::ACCESS | Errno::PERM => Some(MEND_POLICY),
        Errno::ROFS => Some("mount the disk of the image store read-write"),
        Errno::NOSPC | Errno::DQUOT => Some("free space on the disk of the image store"),
        _ => None,
    }
}

type Set<'a> = &'a mut dyn FnMut(BorrowedFd<'_>, &[u8]) -> rustix::io::Result<()>;

/// The directory itself comes last, and between the first file and that it has the mark of a work that is begun:
/// its label alone does not tell, since it may be that of an earlier setting, which is the setting again.
fn label_all(top: &OwnedFd, label: &[u8], set: Set<'_>) -> rustix::io::Result<()> {
    if is_done(top.as_fd(), label) {
        return Ok(());
    }
    begin_work(top.as_fd())?;
    let mut unless_set = |file: BorrowedFd<'_>| {
        // An earlier walk may have come so far.
        if has(file, label) {
            return Ok(());
        }
        set(file, label)
    };
    each_below(top, &mut unless_set)?;
    unless_set(top.as_fd())?;
    end_work(top.as_fd())
}

/// Says of layers that have the label already that they may not have all of it: an earlier version went through the
/// whole store, and gave it to the directory that they are in only when it had come to the end.
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

/// Whether all of a directory has the label.
fn is_done(top: BorrowedFd<'_>, label: &[u8]) -> bool {
    has(top, label) && getxattr(name(top), UNDER_WAY, &mut [0; 0]) == Err(Errno::NODATA)
}

fn begin_work(top: BorrowedFd<'_>) -> rustix::io::Result<()> {
    setxattr(name(top), UNDER_WAY, b"1", XattrFlags::empty())
}

fn end_work(top: BorrowedFd<'_>) -> rustix::io::Result<()> {
    match removexattr(name(top), UNDER_WAY) {
        // Another walk was quicker.
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
