//! A disk of the node's own: an ext4 in a file.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use orlop_testkit::Node;
use rustix::ioctl::{Setter, ioctl, opcode};
use rustix::mount::{UnmountFlags, mount_bind, unmount};

use crate::world::World;

/// How long somebody may hold the disk after all who use it were ended.
const LIMIT: Duration = Duration::from_secs(20);

/// Asks a file system to stop at once (`EXT4_IOC_SHUTDOWN` in `fs/ext4/ext4.h`).
const SHUTDOWN: rustix::ioctl::Opcode = opcode::read::<u32>(b'X', 125);

/// What a power cut takes along (`EXT4_GOING_FLAGS_…` in `fs/ext4/ext4.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// Content alone, as far as it was not written yet: the names are there, of empty files.
    Content = 1,
    /// All that was not synced.
    Unsynced = 2,
}

/// Some of the node's directories, on one disk.
pub(super) struct Ext4 {
    image: PathBuf,
    point: PathBuf,
    directories: Vec<PathBuf>,
}

impl Ext4 {
    /// Makes it and mounts it over these directories. Says so where this machine cannot.
    pub(super) fn over(node: &Node, directories: Vec<PathBuf>) -> Result<Self, String> {
        let image = node.scratch().path("disk.ext4");
        let file = File::create(&image).expect("make a file");
        file.set_len(256 << 20).expect("give it a length");
        let disk = Self {
            image,
            point: node.scratch().subdir("disk"),
            directories,
        };
        run(Command::new("mkfs.ext4").arg("-qF").arg(&disk.image))?;
        disk.attach()?;
        for (nth, directory) in disk.directories.iter().enumerate() {
            fs::create_dir(disk.point.join(nth.to_string())).expect("make a directory");
            fs::create_dir_all(directory).expect("make a directory");
        }
        disk.bind();
        Ok(disk)
    }

    /// Mounts it after all who used it are gone.
    pub(super) fn mount_again(&self) {
        self.wait_until_free();
        self.attach().expect("mount the disk");
        self.bind();
    }

    /// Unmounts it.
    pub(super) fn unmount(&self) {
        for directory in self.directories.iter().chain([&self.point]) {
            unmount(directory, UnmountFlags::DETACH).expect("unmount");
        }
        self.wait_until_free();
    }

    /// Unmounts it below a node that lives on without it, to the end of a test.
    pub(super) async fn finish(self, mut world: World) {
        world.node.stop();
        orlop_testkit::leaks::let_go(&world.node.state());
        self.unmount();
        world.node.start_again().await;
        world.finish().await;
    }

    /// What the kernel does every now and then.
    pub(super) fn sync(&self) {
        let disk = File::open(&self.point).expect("open the disk");
        // One that has failed meanwhile has nothing more to write.
        let _ = rustix::fs::syncfs(disk);
    }

    /// Nothing reaches the disk any more.
    #[allow(unsafe_code)]
    pub(super) fn cut(&self, loss: Loss) {
        let disk = File::open(&self.point).expect("open the disk");
        // SAFETY: the kernel reads a number of 32 bits and writes nothing.
        unsafe { ioctl(&disk, Setter::<SHUTDOWN, u32>::new(loss as u32)) }.expect("shut down");
    }

    /// Becomes read-only as after an error of the device, and stays so until it is mounted anew.
    pub(super) fn make_read_only(&self) {
        let mut command = Command::new("mount");
        command.args(["-o", "remount,abort"]).arg(&self.point);
        run(&mut command).expect("make the disk read-only");
    }

    fn attach(&self) -> Result<(), String> {
        let mut command = Command::new("mount");
        command.args(["-t", "ext4", "-o", "loop,errors=remount-ro"]);
        run(command.arg(&self.image).arg(&self.point))
    }

    fn bind(&self) {
        for (nth, directory) in self.directories.iter().enumerate() {
            mount_bind(self.point.join(nth.to_string()), directory).expect("bind");
        }
    }

    /// A file system that somebody still has open would be the same again, and not what is on
    /// the disk.
    fn wait_until_free(&self) {
        let deadline = Instant::now() + LIMIT;
        while let Some(device) = self.device() {
            assert!(Instant::now() < deadline, "{device} is still held");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The loop device that the disk is behind.
    fn device(&self) -> Option<String> {
        let devices = fs::read_dir("/sys/block").expect("read /sys/block");
        let mut devices = devices.flatten().map(|entry| entry.path());
        let of_image = |device: &PathBuf| {
            let file = fs::read_to_string(device.join("loop/backing_file"));
            file.is_ok_and(|file| Path::new(file.trim()) == self.image)
        };
        devices
            .find(of_image)
            .map(|device| device.display().to_string())
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| format!("{program}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program}: {}", said.trim()))
}
