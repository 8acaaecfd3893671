//! Unique names, and directories under them.

use std::path::{Path, PathBuf};

use rustix::mount::{UnmountFlags, unmount};

/// A unique name with a large directory and a volatile one with a short path. Everything that a test creates on the
/// machine (directories, cgroups, bridges, pods) carries [`Scratch::id`], so that leftovers can be found and removed.
#[derive(Debug)]
pub struct Scratch {
    id: String,
    number: u32,
    dir: PathBuf,
    run: PathBuf,
}

impl Scratch {
    /// Creates the directories under a new name.
    pub fn new() -> Self {
        let number: u32 = rand::random();
        let id = format!("ot{number:08x}");
        let dir = roomy_base().join(&id);
        let run = run_base().join(&id);
        for path in [&dir, &run] {
            std::fs::create_dir_all(path)
                .unwrap_or_else(|e| panic!("creating scratch directory {}: {e}", path.display()));
        }
        let owner = run.join(OWNER);
        std::fs::write(&owner, std::process::id().to_string())
            .unwrap_or_else(|e| panic!("writing {}: {e}", owner.display()));
        Self {
            id,
            number,
            dir,
            run,
        }
    }

    /// Returns the scratch directories of tests that were killed and could not clean up.
    pub(crate) fn abandoned() -> Vec<Self> {
        let Ok(entries) = std::fs::read_dir(run_base()) else {
            return Vec::new();
        };
        let ids = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok());
        ids.filter_map(|id| {
            let number = u32::from_str_radix(id.strip_prefix("ot")?, 16).ok()?;
            let run = run_base().join(&id);
            let owner = std::fs::read_to_string(run.join(OWNER)).ok()?;
            if Path::new("/proc").join(owner).exists() {
                return None;
            }
            let dir = roomy_base().join(&id);
            Some(Self {
                id,
                number,
                dir,
                run,
            })
        })
        .collect()
    }

    /// Returns the unique name: ten characters, valid for an interface or a cgroup.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns a directory for large data, in memory if the machine has enough.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns a directory whose path is short enough for sockets deep below it.
    pub fn run(&self) -> &Path {
        &self.run
    }

    /// Returns a path in [`Scratch::dir`].
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Creates a directory in [`Scratch::dir`].
    pub fn subdir(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(&path)
            .unwrap_or_else(|e| panic!("creating {}: {e}", path.display()));
        path
    }

    /// Creates a separate filesystem in [`Scratch::dir`].
    pub fn disk(&self, name: &str, bytes: u64) -> PathBuf {
        let path = self.subdir(name);
        mount_disk(&path, bytes);
        path
    }

    /// Returns a /24 for pods that is practically unique to this test.
    pub fn subnet(&self) -> String {
        let [a, b, ..] = self.number.to_be_bytes();
        format!("10.{}.{b}.0/24", 128 + a % 64)
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for path in [&self.dir, &self.run] {
            unmount_below(path);
            if let Err(e) = orlop_fs::remove_tree(path) {
                eprintln!("testkit: removing {}: {e}", path.display());
            }
        }
    }
}

/// Mounts a separate in-memory filesystem below a scratch directory; it is removed with that.
pub(crate) fn mount_disk(dir: &Path, bytes: u64) {
    let status = std::process::Command::new("mount")
        .args([
            "-t",
            "tmpfs",
            "-o",
            &format!("size={bytes},mode=755"),
            "disk",
        ])
        .arg(dir)
        .status();
    assert!(status.expect("run mount").success(), "mounting a disk");
}

/// File with the process of the test.
const OWNER: &str = "owner";

/// Returns the parent of large directories: `$ORLOP_TEST_DIR`, else memory, else the temporary directory.
fn roomy_base() -> PathBuf {
    if let Some(dir) = std::env::var_os("ORLOP_TEST_DIR") {
        return dir.into();
    }
    const ROOM: u64 = 2 << 30;
    let memory = PathBuf::from("/dev/shm");
    match rustix::fs::statvfs(&memory) {
        Ok(fs) if fs.f_bavail * fs.f_frsize >= ROOM => memory,
        _ => std::env::temp_dir(),
    }
}

/// Returns the parent of volatile directories: in memory, with a path as short as a node's.
fn run_base() -> PathBuf {
    /// `statfs` type of tmpfs (`linux/magic.h`).
    const TMPFS: u64 = 0x0102_1994;
    let candidates = ["/run", "/dev/shm"].map(PathBuf::from);
    let writable = |dir: &Path| rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).is_ok();
    let in_memory = |dir: &Path| rustix::fs::statfs(dir).is_ok_and(|fs| fs.f_type as u64 == TMPFS);
    candidates
        .iter()
        .find(|dir| writable(dir) && in_memory(dir))
        .cloned()
        .unwrap_or_else(std::env::temp_dir)
}

/// Detaches every mount at or below `dir`, the latest first.
pub fn unmount_below(dir: &Path) {
    for point in mounts_below(dir).into_iter().rev() {
        if let Err(e) = unmount(&point, UnmountFlags::DETACH) {
            eprintln!("testkit: unmounting {}: {e}", point.display());
        }
    }
}

/// Returns the mount points at and below `dir`, in mount order.
pub fn mounts_below(dir: &Path) -> Vec<PathBuf> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    table
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(|point| PathBuf::from(point.replace("\\040", " ")))
        .filter(|point| point.starts_with(dir))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_directories_go() {
        let (one, two) = (Scratch::new(), Scratch::new());
        assert_ne!(one.id(), two.id());
        let dir = one.subdir("deep");
        assert!(dir.is_dir());
        drop(one);
        assert!(!dir.exists());
    }

    #[test]
    fn a_mount_left_below_is_detached() {
        crate::skip_unless!(crate::machine::is_root());
        let scratch = Scratch::new();
        let point = scratch.subdir("mounted");
        let status = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "left-behind"])
            .arg(&point)
            .status()
            .expect("run mount");
        assert!(status.success());
        assert_eq!(mounts_below(scratch.dir()), std::slice::from_ref(&point));
        drop(scratch);
        assert!(mounts_below(&point).is_empty());
        assert!(!point.exists());
    }
}
