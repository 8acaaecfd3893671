//! The SELinux label of what layers hold.
//!
//! Containers see layers with the label of the mount over them, but the kernel asks for that of the file
//! beneath when a program that it maps changes what it may do with its memory.

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use orlop_disk::{Step, Walk};
use rustix::fs::{Mode, OFlags, XattrFlags, getxattr, open, openat, setxattr};
use rustix::io::Errno;

use super::Layout;
use crate::{Error, Result};

const ATTRIBUTE: &str = "security.selinux";

/// The longest label that is compared.
const LONGEST_LABEL: usize = 4096;

/// Labels what is in the store, where that was not done before; what is made in there later is labelled as the
/// directory in which it is made. Blocks.
pub(super) fn label_layers(layout: &Layout, label: &str) -> Result<()> {
    for dir in [
        layout.tmp(),
        layout.ingest(),
        layout.replaced(),
        layout.layers(),
    ] {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let labelled = open(&dir, flags, Mode::empty());
        match labelled.and_then(|top| label_all(&top, label.as_bytes())) {
            // One for the whole file system.
            Ok(()) | Err(Errno::OPNOTSUPP) => {}
            Err(errno) => return Err(Error::at("labelling", &dir, errno)),
        }
    }
    Ok(())
}

/// The directory itself comes last: once it has the label, all has.
fn label_all(top: &OwnedFd, label: &[u8]) -> rustix::io::Result<()> {
    if has(top.as_fd(), label) {
        return Ok(());
    }
    let mut walk = Walk::new(top)?;
    while let Some(step) = walk.next()? {
        let Step::Entry(entry) = step else { continue };
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(walk.here(), &entry.name, flags, Mode::empty())?;
        set(file.as_fd(), label)?;
        match walk.enter(&entry.name) {
            // No directory.
            Ok(()) | Err(Errno::NOTDIR | Errno::LOOP) => {}
            Err(error) => return Err(error),
        }
    }
    set(top.as_fd(), label)
}

fn has(file: BorrowedFd<'_>, label: &[u8]) -> bool {
    let mut found = [0; LONGEST_LABEL];
    getxattr(name(file), ATTRIBUTE, &mut found).is_ok_and(|length| {
        let found = found.get(..length).unwrap_or_default();
        found.strip_suffix(&[0]).unwrap_or(found) == label
    })
}

fn set(file: BorrowedFd<'_>, label: &[u8]) -> rustix::io::Result<()> {
    let label = [label, &[0]].concat();
    setxattr(name(file), ATTRIBUTE, &label, XattrFlags::empty())
}

/// A handle that only names a file can be written through by this path alone.
fn name(file: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;

    fn is_labelled(path: &Path, label: &str) -> bool {
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        has(
            open(path, flags, Mode::empty()).unwrap().as_fd(),
            label.as_bytes(),
        )
    }

    #[test]
    fn what_is_there_is_labelled_once_and_no_link_leads_out() {
        // The node's own temporary files may lie where files have no attributes.
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let (layers, outside) = (dir.path().join("layers"), dir.path().join("outside"));
        fs::create_dir_all(layers.join("one/fs")).unwrap();
        fs::write(layers.join("one/fs/file"), "").unwrap();
        fs::write(&outside, "").unwrap();
        symlink(&outside, layers.join("one/fs/link")).unwrap();
        let top = open(&layers, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let label = "system_u:object_r:usr_t:s0";
        match label_all(&top, label.as_bytes()) {
            // Others than root may not.
            Err(Errno::PERM | Errno::OPNOTSUPP) => return,
            done => done.unwrap(),
        }
        for path in ["", "one", "one/fs", "one/fs/file", "one/fs/link"] {
            assert!(is_labelled(&layers.join(path), label), "{path}");
        }
        assert!(!is_labelled(&outside, label));
        // A directory of which all is labelled is not walked again.
        set(
            open(layers.join("one/fs/file"), OFlags::PATH, Mode::empty())
                .unwrap()
                .as_fd(),
            b"u:r:t:s0",
        )
        .unwrap();
        label_all(&top, label.as_bytes()).unwrap();
        assert!(!is_labelled(&layers.join("one/fs/file"), label));
    }
}
