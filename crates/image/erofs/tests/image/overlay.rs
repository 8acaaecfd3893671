//! Images as the layers of an overlay.

use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};

use orlop_erofs::{Kind, mount};
use orlop_testkit::{machine, skip_unless};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_fd,
    fsconfig_set_string, fsmount, fsopen,
};

use crate::kernel::Mounted;
use crate::model::{Model, attributes, path};

fn overlay(layers: &[OwnedFd]) -> rustix::io::Result<OwnedFd> {
    let fs = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(fs.as_fd(), "source", "overlay")?;
    for layer in layers {
        fsconfig_set_fd(fs.as_fd(), "lowerdir+", layer.as_fd())?;
    }
    fsconfig_create(fs.as_fd())?;
    let flags = FsMountFlags::FSMOUNT_CLOEXEC;
    fsmount(fs.as_fd(), flags, MountAttrFlags::MOUNT_ATTR_RDONLY)
}

#[test]
fn whiteouts_and_opaque_directories_hide_what_is_below() {
    skip_unless!(machine::is_root());
    let file = || tempfile::tempfile_in("/var/tmp").expect("make a file");
    let mut lower = Model::new(file());
    for directory in ["merged", "opaque"] {
        lower.directory(&path(directory), attributes(0o755));
        for name in ["kept", "hidden", "replaced"] {
            let at = path(&format!("{directory}/{name}"));
            lower.file(&at, attributes(0o644), b"lower", &[(0, 5)]);
        }
    }
    let mut upper = Model::new(file());
    upper.directory(&path("merged"), attributes(0o700));
    let whiteout = path("merged/hidden");
    upper.device(&whiteout, attributes(0), Kind::Character, (0, 0));
    let mut opaque = attributes(0o711);
    opaque
        .xattrs
        .insert(b"trusted.overlay.opaque".to_vec(), b"y".to_vec());
    upper.directory(&path("opaque"), opaque);
    for directory in ["merged", "opaque"] {
        let at = path(&format!("{directory}/replaced"));
        upper.file(&at, attributes(0o600), b"upper", &[(0, 5)]);
    }
    let layers = [upper, lower].map(|model| {
        let (_, file, _) = model.finish();
        mount::mount(file.as_fd(), None).expect("mount")
    });
    let overlay = match overlay(&layers) {
        Err(Errno::INVAL | Errno::BADF | Errno::OPNOTSUPP) => {
            orlop_testkit::skip!("overlays of this kernel take no detached mounts");
        }
        overlay => Mounted::of(overlay.expect("mount the overlay")),
    };
    let list = |directory: &str| {
        let entries = fs::read_dir(overlay.path(&path(directory))).expect("list");
        let mut names: Vec<_> = entries
            .map(|entry| entry.expect("read an entry").file_name().into_string())
            .map(|name| name.expect("is text"))
            .collect();
        names.sort();
        names
    };
    assert_eq!(list("merged"), ["kept", "replaced"]);
    assert_eq!(list("opaque"), ["replaced"]);
    let read = |at: &str| fs::read(overlay.path(&path(at))).ok();
    assert_eq!(read("merged/kept").as_deref(), Some(&b"lower"[..]));
    assert_eq!(read("merged/replaced").as_deref(), Some(&b"upper"[..]));
    assert_eq!(read("merged/hidden"), None);
    assert_eq!(read("opaque/kept"), None);
}
