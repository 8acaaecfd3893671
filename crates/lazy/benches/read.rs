//! What reading by the server costs, against reading the plain file: bytes in a row, and many small files
//! of an EROFS image. `cargo bench -p orlop-lazy`; it needs root and mkfs.erofs.

#![allow(
    clippy::disallowed_methods,
    reason = "a bench reads what it wrote itself"
)]
#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

#[path = "../tests/lazy/support/mod.rs"]
mod support;

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, CWD, OFlags, fadvise};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, move_mount, unmount,
};
use support::{LIMIT, Node};

const MIB: u64 = 1 << 20;
const SIZE: u64 = 1024 * MIB;
const FILES: usize = 30_000;
const RUNS: usize = 5;

fn main() {
    // As a test, with `--test`, there is nothing to measure.
    if std::env::args().any(|argument| argument == "--test") || support::may_serve().is_err() {
        return;
    }
    let node = Node::new();
    in_a_row(&node);
    many_files(&node);
}

fn in_a_row(node: &Node) {
    let layer = node.layer("row", SIZE, LIMIT);
    layer.fetch(0, SIZE);
    layer.parts.sync().unwrap();
    let image = layer.directory.join("image");
    let show = |what: &str, took: Duration| {
        let rate = SIZE as f64 / took.as_secs_f64() / 1e9;
        println!("{what:48} {rate:6.2} GB/s");
    };
    let runs = |read: &dyn Fn() -> Duration| (0..RUNS).map(|_| read()).min().unwrap();
    show("plain file, cached", runs(&|| read(&image, false, false)));
    show(
        "plain file, past the cache",
        runs(&|| read(&image, true, false)),
    );
    read(&image, false, false);
    show(
        "FUSE, not cached, its file is",
        runs(&|| read(&layer.file, false, true)),
    );
    show(
        "FUSE, past its cache",
        runs(&|| read(&layer.file, true, false)),
    );
    read(&layer.file, false, false);
    show("FUSE, cached", runs(&|| read(&layer.file, false, false)));
}

/// Reads a file by whole MiBs: as it is, past the cache, or with the cache forgotten first.
fn read(path: &Path, direct: bool, forget: bool) -> Duration {
    let flags = if direct { OFlags::DIRECT.bits() } else { 0 };
    let file = File::options()
        .read(true)
        .custom_flags(flags.cast_signed())
        .open(path)
        .unwrap();
    if forget {
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    }
    let mut room = vec![0_u8; 2 * MIB as usize];
    let aligned = room.as_ptr().align_offset(4096);
    let room = &mut room[aligned..aligned + MIB as usize];
    let started = Instant::now();
    for at in (0..SIZE).step_by(MIB as usize) {
        file.read_exact_at(room, at).unwrap();
    }
    started.elapsed()
}

fn many_files(node: &Node) {
    let tree = node.dir.path().join("tree");
    for number in 0..FILES {
        let directory = tree.join(format!("d{}", number / 100));
        std::fs::create_dir_all(&directory).unwrap();
        let size = support::mix(number as u64) % 12_000;
        std::fs::write(
            directory.join(format!("f{number}")),
            support::content(0, size),
        )
        .unwrap();
    }
    let source = node.dir.path().join("source");
    let made = Command::new("mkfs.erofs")
        .args([&source, &tree])
        .output()
        .unwrap();
    assert!(made.status.success());
    let bytes = std::fs::read(&source).unwrap();
    let size = bytes.len() as u64;
    let layer = node.layer("files", size, LIMIT);
    layer.parts.write(0, &bytes).unwrap();
    layer.parts.mark(0..size).unwrap();
    layer.parts.sync().unwrap();
    println!("{FILES} files, {} MiB", size / MIB);
    let image = layer.directory.join("image");
    let at = node.dir.path().join("mounted");
    std::fs::create_dir_all(&at).unwrap();
    let mut figures: Vec<(String, Duration)> = Vec::new();
    for _ in 0..RUNS {
        for (what, from) in [("plain EROFS", &image), ("EROFS on FUSE", &layer.file)] {
            for state in ["on the disk", "cached"] {
                // Nothing that was mounted before helps.
                forget(&layer.file);
                forget(&image);
                if state == "cached" {
                    std::fs::read(&image).unwrap();
                }
                mount_erofs(from, &at);
                let cold = read_all(&at);
                let warm = read_all(&at);
                unmount(&at, UnmountFlags::DETACH).unwrap();
                figures.push((format!("{what}, not cached, its image {state}"), cold));
                figures.push((format!("{what}, cached"), warm));
            }
        }
    }
    figures.sort();
    figures.dedup_by(|next, best| next.0 == best.0);
    for (what, took) in figures {
        println!("{what:48} {:6.0} ms", took.as_secs_f64() * 1e3);
    }
}

fn forget(path: &Path) {
    let file = File::open(path).unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
}

fn read_all(at: &Path) -> Duration {
    let started = Instant::now();
    let mut files = 0;
    let mut left: Vec<PathBuf> = vec![at.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                left.push(entry.path());
            } else {
                std::fs::read(entry.path()).unwrap();
                files += 1;
            }
        }
    }
    assert_eq!(files, FILES);
    started.elapsed()
}

fn mount_erofs(image: &Path, at: &Path) {
    let context = fsopen("erofs", FsOpenFlags::FSOPEN_CLOEXEC).unwrap();
    fsconfig_set_string(&context, "source", image).unwrap();
    fsconfig_create(&context).unwrap();
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY;
    let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes).unwrap();
    move_mount(&mount, "", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).unwrap();
}
