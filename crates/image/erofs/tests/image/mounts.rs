//! Both ways in which an image is mounted, and what a mount is.

use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::path::Path;

use orlop_erofs::mount::{mount, mount_file, mount_on_loop};
use orlop_testkit::{machine, skip, skip_unless};
use rustix::fs::StatVfsMountFlags;
use rustix::io::Errno;

use crate::kernel::Mounted;
use crate::model::{Expected, Model, attributes, path};
use crate::random;

fn image(dir: &str) -> (Expected, File) {
    let file = tempfile::tempfile_in(dir).expect("make a file");
    let (expected, file, _) = random::tree(99, 200, file).finish();
    (expected, file)
}

/// The files that are behind loop devices, by the inode of each.
fn is_behind_a_loop_device(file: &File) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let inode = file.metadata().expect("look").ino();
    let devices = fs::read_dir("/sys/block").expect("list devices");
    devices.flatten().any(|device| {
        let number = device.file_name();
        let path = Path::new("/dev").join(number);
        path.to_string_lossy().starts_with("/dev/loop") && backing_inode(&path) == Some(inode)
    })
}

/// By `losetup`, which asks the device.
fn backing_inode(device: &Path) -> Option<u64> {
    let output = std::process::Command::new("losetup")
        .args(["--noheadings", "--output", "BACK-INO"])
        .arg(device)
        .output()
        .expect("run losetup");
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}

#[test]
fn the_kernel_reads_the_file_itself_where_it_can() {
    skip_unless!(machine::is_root());
    skip_unless!(machine::has_program("losetup"));
    let (expected, file) = image("/var/tmp");
    let mounted = match mount_file(file.as_fd(), None) {
        Err(error) if error.raw_os_error() == Some(Errno::NOTBLK.raw_os_error()) => {
            skip!("this kernel mounts no images from files");
        }
        mounted => mounted.expect("mount"),
    };
    assert!(!is_behind_a_loop_device(&file));
    expected.compare(&Mounted::of(mounted).walk());
}

#[test]
fn a_loop_device_lives_as_long_as_the_mount() {
    skip_unless!(machine::is_root());
    skip_unless!(machine::has_program("losetup"));
    let (expected, file) = image("/var/tmp");
    let mounted = Mounted::of(mount_on_loop(file.as_fd(), None).expect("mount"));
    assert!(is_behind_a_loop_device(&file));
    expected.compare(&mounted.walk());
    drop(mounted);
    orlop_testkit::block_until!(
        std::time::Duration::from_secs(10),
        !is_behind_a_loop_device(&file),
        "the device is still there"
    );
}

#[test]
fn files_that_the_kernel_does_not_read_itself_are_behind_a_device() {
    skip_unless!(machine::is_root());
    // Of a tmpfs, whose files are no pages to be read.
    let (expected, file) = image("/dev/shm");
    let error = mount_file(file.as_fd(), None).expect_err("is in no file that can be read so");
    assert_eq!(error.raw_os_error(), Some(Errno::NOTBLK.raw_os_error()));
    let mounted = Mounted::of(mount(file.as_fd(), None).expect("mount"));
    expected.compare(&mounted.walk());
}

#[test]
fn what_is_no_image_is_not_mounted_and_leaves_no_device() {
    skip_unless!(machine::is_root());
    skip_unless!(machine::has_program("losetup"));
    let file = tempfile::tempfile_in("/var/tmp").expect("make a file");
    file.set_len(1 << 20).expect("lengthen");
    mount(file.as_fd(), None).expect_err("is no image");
    mount_on_loop(file.as_fd(), None).expect_err("is no image");
    orlop_testkit::block_until!(
        std::time::Duration::from_secs(10),
        !is_behind_a_loop_device(&file),
        "the device is still there"
    );
}

#[test]
fn a_mount_is_read_and_its_programs_run_as_their_owners() {
    skip_unless!(machine::is_root());
    let file = tempfile::tempfile_in("/var/tmp").expect("make a file");
    let mut model = Model::new(file);
    model.file(&path("program"), attributes(0o4755), b"#!", &[(0, 2)]);
    let (_, file, _) = model.finish();
    for mounted in [mount_on_loop(file.as_fd(), None), mount(file.as_fd(), None)] {
        let mounted = mounted.expect("mount");
        let flags = rustix::fs::fstatvfs(&mounted).expect("look").f_flag;
        assert!(flags.contains(StatVfsMountFlags::RDONLY));
        let unwanted =
            StatVfsMountFlags::NOSUID | StatVfsMountFlags::NODEV | StatVfsMountFlags::NOEXEC;
        assert!(!flags.intersects(unwanted), "{flags:?}");
        let mounted = Mounted::of(mounted);
        let refused = fs::write(mounted.path(&path("program")), "other");
        let refused = refused.expect_err("nothing is written").raw_os_error();
        assert_eq!(refused, Some(Errno::ROFS.raw_os_error()));
    }
}
