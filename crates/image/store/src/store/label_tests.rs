//! Tests of layer labels on a file system that supports them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use orlop_testkit::{machine, skip, skip_unless};
use rustix::mount::{MountFlags, UnmountFlags, mount_bind, mount_remount, unmount};
use tempfile::TempDir;

use super::super::{Form, Store};
use super::*;
use crate::Digest;
use crate::rootfs::attributes;

const LABEL: &str = "system_u:object_r:usr_t:s0";

/// The paths in a layer, top first.
const ALL: [&str; 6] = ["", "fs", "fs/dir", "fs/dir/file", "fs/file", "fs/link"];

/// Creates a layer for a test; skips the test if files cannot be labelled.
macro_rules! layer {
    () => {{
        skip_unless!(machine::is_root());
        let Some(layer) = a_layer() else {
            skip!("labels cannot be set in /var/tmp");
        };
        layer
    }};
}

/// Creates a layer without a label in /var/tmp, because the default temporary directory may not support labels.
fn a_layer() -> Option<(TempDir, PathBuf)> {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let probe = open_dir(dir.path()).unwrap();
    set(probe.as_fd(), b"u:object_r:tmp_t:s0").ok()?;
    let layer = dir.path().join("layer");
    make_layer(&layer);
    fs::write(dir.path().join("outside"), "").unwrap();
    Some((dir, layer))
}

fn make_layer(layer: &Path) {
    fs::create_dir_all(layer.join("fs/dir")).unwrap();
    fs::write(layer.join("fs/file"), "").unwrap();
    fs::write(layer.join("fs/dir/file"), "").unwrap();
    symlink("../../outside", layer.join("fs/link")).unwrap();
}

fn is_labelled(path: &Path) -> bool {
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    let file = open(path, flags, Mode::empty()).unwrap();
    has(file.as_fd(), LABEL.as_bytes())
}

fn labelled(layer: &Path) -> Vec<&'static str> {
    let all = ALL.into_iter();
    all.filter(|path| is_labelled(&layer.join(path))).collect()
}

#[test]
fn a_layer_is_labelled_once_and_no_link_leads_out() {
    let (dir, layer) = layer!();
    let label = LayerLabel::new(LABEL.to_owned());
    label.give(&layer).unwrap();
    assert_eq!(labelled(&layer), ALL);
    assert!(!is_labelled(&dir.path().join("outside")));
    let file = open(layer.join("fs/file"), OFlags::PATH, Mode::empty()).unwrap();
    set(file.as_fd(), b"u:object_r:tmp_t:s0").unwrap();
    label.give(&layer).unwrap();
    assert!(!is_labelled(&layer.join("fs/file")), "it was walked again");
    // A different SELinux user is no reason to label the layer again.
    let top = open_dir(&layer).unwrap();
    set(top.as_fd(), b"unconfined_u:object_r:usr_t:s0").unwrap();
    label.give(&layer).unwrap();
    assert!(!is_labelled(&layer.join("fs/file")), "it was walked again");
    set(top.as_fd(), b"system_u:object_r:usr_t:s0:c1,c2").unwrap();
    label.give(&layer).unwrap();
    assert_eq!(labelled(&layer), ALL, "its level was another");
}

#[test]
fn a_walk_that_is_cut_short_is_taken_up_where_it_was() {
    let (_dir, layer) = layer!();
    let top = open_dir(&layer).unwrap();
    let mut room = 3;
    let cut = label_all(&top, LABEL.as_bytes(), &mut |file, label| {
        if room == 0 {
            return Err(Errno::IO);
        }
        room -= 1;
        set(file, label)
    });
    assert_eq!(cut, Err(Errno::IO));
    assert!(!is_labelled(&layer), "not all that is below has the label");
    assert_eq!(labelled(&layer).len(), 3);
    let mut sets = 0;
    label_all(&top, LABEL.as_bytes(), &mut |file, label| {
        sets += 1;
        set(file, label)
    })
    .unwrap();
    assert_eq!(labelled(&layer), ALL);
    assert_eq!(sets, ALL.len() - 3);
}

#[test]
fn what_goes_while_a_layer_is_labelled_is_not_missed() {
    let (_dir, layer) = layer!();
    let top = open_dir(&layer).unwrap();
    let emptied = layer.join("fs");
    // All names of a directory are read before the first file is labelled.
    let mut sets = 0;
    label_all(&top, LABEL.as_bytes(), &mut |file, label| {
        sets += 1;
        if sets == 2 {
            fs::remove_dir_all(&emptied).unwrap();
        }
        set(file, label)
    })
    .unwrap();
    assert!(is_labelled(&layer));
    assert_eq!(sets, 3, "`fs`, the first in it, the top");
    fs::remove_dir_all(&layer).unwrap();
    LayerLabel::new(LABEL.to_owned()).give(&layer).unwrap();
}

#[test]
fn a_store_opens_without_a_walk_and_labels_what_is_used() {
    let (dir, _) = layer!();
    let root = dir.path().join("images");
    let (used, other) = (Digest::of(b"used"), Digest::of(b"other"));
    let layout = Layout::create(&root).unwrap();
    let (pulled, replaced) = (
        layout.ingest().join("pulled"),
        layout.replaced().join("one"),
    );
    fs::write(&pulled, "").unwrap();
    fs::write(&replaced, "").unwrap();

    let running = Store::open(&root, None).unwrap();
    let refused = Store::open(&root, Some(LABEL.to_owned())).err();
    assert!(matches!(refused, Some(Error::Busy(_))), "{refused:?}");
    assert!(!is_labelled(&layout.tmp()), "it is another's");
    drop(running);

    let store = Store::open(&root, Some(LABEL.to_owned())).unwrap();
    for dir in [layout.tmp(), layout.ingest(), layout.replaced()] {
        assert!(is_labelled(&dir), "{}", dir.display());
    }
    assert!(is_labelled(&pulled), "it may become a layer");
    assert!(!is_labelled(&replaced), "the store was walked");
    for key in [&used, &other] {
        make_layer(&layout.layer(key));
    }
    assert!(!store.need_nothing(&[used]));
    store.mounted(&used, &Form::Files).unwrap();
    assert_eq!(labelled(&layout.layer(&used)), ALL);
    assert!(labelled(&layout.layer(&other)).is_empty());
}

#[test]
fn a_label_that_cannot_be_set_keeps_no_store_from_opening() {
    let dir = tempfile::tempdir().unwrap();
    // Attribute values are limited to 64 KiB.
    let unusable = "l".repeat(128 << 10);
    let store = Store::open(dir.path(), Some(unusable)).unwrap();
    let key = Digest::of(b"layer");
    make_layer(&store.layout().layer(&key));
    let refused = store.mounted(&key, &Form::Files).unwrap_err().to_string();
    assert!(refused.contains("labelling"), "{refused}");
}

#[test]
fn a_label_that_was_given_up_half_way_and_is_wanted_again_is_given_to_all() {
    let (_dir, layer) = layer!();
    let label = LayerLabel::new(LABEL.to_owned());
    label.give(&layer).unwrap();
    let top = open_dir(&layer).unwrap();
    let mut room = 2;
    let cut = label_all(&top, b"u:object_r:other_t:s0", &mut |file, label| {
        if room == 0 {
            return Err(Errno::INTR);
        }
        room -= 1;
        set(file, label)
    });
    assert_eq!(cut, Err(Errno::INTR));
    assert!(is_labelled(&layer), "its own label is of before");
    assert_eq!(labelled(&layer).len(), ALL.len() - 2);
    label.give(&layer).unwrap();
    assert_eq!(labelled(&layer), ALL);
}

#[test]
fn a_store_that_an_earlier_version_labelled_half_is_not_taken_for_labelled() {
    let (dir, _) = layer!();
    let root = dir.path().join("images");
    let layout = Layout::create(&root).unwrap();
    let key = Digest::of(b"half");
    let layer = layout.layer(&key);
    make_layer(&layer);
    for path in ["", "fs"] {
        let file = open(layer.join(path), OFlags::PATH, Mode::empty()).unwrap();
        set(file.as_fd(), LABEL.as_bytes()).unwrap();
    }
    // The second run finds the store's directories labelled.
    for _ in 0..2 {
        LayerLabel::new(LABEL.to_owned()).begin(&layout);
        assert!(is_labelled(&layout.layers()));
        assert_eq!(labelled(&layer).len(), 2, "the store was walked");
    }
    LayerLabel::new(LABEL.to_owned()).give(&layer).unwrap();
    assert_eq!(labelled(&layer), ALL);
}

#[test]
fn a_label_that_is_refused_is_no_damage() {
    let (dir, layer) = layer!();
    let flags = rustix::fs::IFlags::IMMUTABLE;
    let file = fs::File::open(layer.join("fs/file")).unwrap();
    let former = rustix::fs::ioctl_getflags(&file).unwrap();
    if rustix::fs::ioctl_setflags(&file, former | flags).is_err() {
        skip!("no file can be made immutable");
    }
    let refused = LayerLabel::new(LABEL.to_owned()).give(&layer);
    rustix::fs::ioctl_setflags(&file, former).unwrap();
    let refused = refused.unwrap_err();
    assert!(matches!(&refused, Error::Unlabelled { .. }), "{refused}");
    assert!(refused.to_string().contains("usr_t"), "{refused}");
    drop(dir);
}

#[test]
fn a_layer_on_a_disk_that_is_read_only_or_full_is_no_damage_and_no_matter_of_the_policy() {
    let (dir, layer) = layer!();
    // In a separate mount namespace, to leave the machine unchanged.
    let refused = std::thread::spawn(move || {
        attributes::own_mounts().unwrap();
        let path = dir.path();
        mount_bind(path, path).unwrap();
        mount_remount(path, MountFlags::BIND | MountFlags::RDONLY, "").unwrap();
        let refused = LayerLabel::new(LABEL.to_owned()).give(&layer);
        unmount(path, UnmountFlags::DETACH).unwrap();
        refused.unwrap_err()
    });
    let refused = refused.join().unwrap();
    assert!(matches!(&refused, Error::Unlabelled { .. }), "{refused}");
    let refused = refused.to_string();
    assert!(refused.ends_with("read-write"), "{refused}");
    assert!(!refused.contains("policy"), "{refused}");
    // The test does not fill up a disk.
    assert_eq!(way_out(Errno::NOSPC), way_out(Errno::DQUOT));
    assert!(way_out(Errno::NOSPC).unwrap().contains("free space"));
    assert_eq!(way_out(Errno::IO), None, "this is the disk's own failure");
}
