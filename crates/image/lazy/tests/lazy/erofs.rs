//! An EROFS image that the kernel mounts from a lazy layer, while it is fetched.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use orlop_lazy::{PART, Parts};
use orlop_testkit::{skip, skip_unless};
use rustix::fs::CWD;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, move_mount,
};

use crate::support::{self, Daemon, LIMIT, content, mix};

/// Files by their paths beneath a directory, as far as they are any.
fn tree(at: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut left = vec![at.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let about = std::fs::symlink_metadata(&path).unwrap();
            let bytes = if about.is_dir() {
                left.push(path.clone());
                Vec::new()
            } else if about.is_symlink() {
                std::fs::read_link(&path)
                    .unwrap()
                    .into_os_string()
                    .into_encoded_bytes()
            } else {
                std::fs::read(&path).unwrap()
            };
            let mode = about.permissions().mode();
            found.insert(path.strip_prefix(at).unwrap().to_owned(), (mode, bytes));
        }
    }
    found
}

fn make_tree(at: &Path) {
    for number in 0..300_u64 {
        let directory = at.join(format!("d{}", number % 7));
        std::fs::create_dir_all(&directory).unwrap();
        let size = mix(number) % 40_000;
        let file = directory.join(format!("f{number}"));
        std::fs::write(&file, content(mix(number) % 10_000, size)).unwrap();
        std::fs::set_permissions(
            &file,
            PermissionsExt::from_mode(0o600 | (number as u32 % 64)),
        )
        .unwrap();
    }
    std::fs::write(at.join("large"), content(77, 9 << 20)).unwrap();
    symlink("d1/f8", at.join("link")).unwrap();
}

/// Mounts an image from a file; why not, if the kernel cannot.
fn mount_erofs(image: &Path, at: &Path) -> rustix::io::Result<()> {
    std::fs::create_dir_all(at).unwrap();
    let context = fsopen("erofs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "source", image)?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY;
    let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    move_mount(&mount, "", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

/// Mounts a container's view of it, of which other layers are another part.
fn mount_overlay(lower: &Path, other: &Path, at: &Path) {
    std::fs::create_dir_all(other).unwrap();
    std::fs::create_dir_all(at).unwrap();
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).unwrap();
    let layers = format!("{}:{}", lower.display(), other.display());
    fsconfig_set_string(&context, "lowerdir", layers).unwrap();
    fsconfig_create(&context).unwrap();
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY;
    let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes).unwrap();
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(&mount, "", CWD, at, flags).unwrap();
}

struct Detached<'a>(&'a Path);

impl Drop for Detached<'_> {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

fn image_of(tree: &Path, image: &Path) -> Result<(), String> {
    let made = Command::new("mkfs.erofs").arg(image).arg(tree).output();
    match made {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => panic!("mkfs.erofs: {}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => Err(format!("needs mkfs.erofs: {error}")),
    }
}

/// Fetches parts of an image from a file that has all of it.
fn fetching(
    from: std::fs::File,
    to: Arc<Parts>,
) -> impl FnMut(&orlop_lazy::Fetch) -> Result<(), String> {
    move |wanted| {
        let mut bytes = vec![0; wanted.length as usize];
        from.read_exact_at(&mut bytes, wanted.offset).unwrap();
        to.write(wanted.offset, &bytes).unwrap();
        to.mark(wanted.offset..wanted.offset + wanted.length)
            .unwrap();
        Ok(())
    }
}

#[test]
fn a_tree_is_walked_while_its_image_is_fetched_and_servers_die() {
    let mut node = node!();
    let made = node.dir.path().join("tree");
    make_tree(&made);
    let source = node.dir.path().join("source");
    skip_unless!(image_of(&made, &source));
    let size = std::fs::metadata(&source).unwrap().len();
    let layer = node.layer("erofs", size, LIMIT);
    let open = || std::fs::File::open(&source).unwrap();
    let mut daemon = Daemon::new(node.server(), fetching(open(), Arc::clone(&layer.parts)));
    let at = node.dir.path().join("mounted");
    let detached = Detached(&at);
    if let Err(errno) = mount_erofs(&layer.file, &at) {
        skip!("the kernel mounts no EROFS from a file: {errno}");
    }
    let root = node.dir.path().join("root");
    let over = Detached(&root);
    mount_overlay(&at, &node.dir.path().join("other"), &root);
    let walker = {
        let root = root.clone();
        std::thread::spawn(move || tree(&root))
    };
    while !walker.is_finished() {
        std::thread::sleep(Duration::from_millis(20));
        node.succeed();
        daemon.end();
        daemon = Daemon::new(node.server(), fetching(open(), Arc::clone(&layer.parts)));
    }
    let walked = walker.join().unwrap();
    assert!(walked == tree(&made), "the trees differ");
    assert!(walked.len() > 300);
    drop((over, detached, daemon));
}

#[test]
fn a_file_whose_part_never_comes_is_an_error_and_the_others_are_read() {
    let node = node!();
    let made = node.dir.path().join("tree");
    make_tree(&made);
    let source = node.dir.path().join("source");
    skip_unless!(image_of(&made, &source));
    let size = std::fs::metadata(&source).unwrap().len();
    let layer = node.layer("erofs", size, Duration::from_millis(1500));
    let from = std::fs::File::open(&source).unwrap();
    // The large file is most of the image: what lies in its middle is not had.
    let never = size / 2 / PART * PART;
    let mut fetch = fetching(from, Arc::clone(&layer.parts));
    let daemon = Daemon::that_answers(node.server(), move |wanted, answers| {
        if !(wanted.offset..wanted.offset + wanted.length).contains(&never) {
            fetch(wanted).unwrap();
            answers.is_here(wanted.id).unwrap();
        }
    });
    let at = node.dir.path().join("mounted");
    let detached = Detached(&at);
    if let Err(errno) = mount_erofs(&layer.file, &at) {
        skip!("the kernel mounts no EROFS from a file: {errno}");
    }
    let read = std::fs::read(at.join("large"));
    assert_eq!(read.unwrap_err().raw_os_error(), Some(5));
    assert_eq!(
        std::fs::read(at.join("link")).unwrap(),
        std::fs::read(made.join("link")).unwrap()
    );
    // Who reads it can be killed before.
    let slow = node.server().add("erofs", &layer.directory, size, LIMIT);
    slow.unwrap();
    std::thread::sleep(Duration::from_millis(1600));
    let mut reader = Command::new("cat")
        .arg(at.join("large"))
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    support::until("it waits", || node.server().list().unwrap()[0].waiting > 0);
    reader.kill().unwrap();
    let killed = std::time::Instant::now();
    reader.wait().unwrap();
    let took = killed.elapsed();
    assert!(took < Duration::from_secs(3), "{took:?}");
    drop(detached);
    let (_, failures) = daemon.end();
    assert!(failures.iter().any(|it| it.timed_out), "{failures:?}");
}
