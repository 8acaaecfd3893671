//! A name that nothing else on the machine carries, and directories under it.

use std::path::{Path, PathBuf};

use rustix::mount::{UnmountFlags, unmount};

/// A unique name with a roomy directory and a short-pathed volatile one.
///
/// Everything that a test makes on the machine (directories, cgroups, bridges, pods)
/// carries [`Scratch::id`], so that what was left behind can be found and removed.
#[derive(Debug)]
pub struct Scratch {
    id: String,
    number: u32,
    dir: PathBuf,
    run: PathBuf,
}

impl Scratch {
    /// Makes the directories under a fresh name.
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

    /// The scratch of tests whose process is gone: it was killed and couldn't clean up.
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

    /// The unique name: ten characters, fit for an interface or a cgroup.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// A directory for bulky things; in memory where the machine has room there.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A directory with a path so short that sockets deep below it still have valid names.
    pub fn run(&self) -> &Path {
        &self.run
    }

    /// A path in [`Scratch::dir`].
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// A path in [`Scratch::dir`], made as a directory.
    pub fn subdir(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(&path)
            .unwrap_or_else(|e| panic!("creating {}: {e}", path.display()));
        path
    }

    /// A path in [`Scratch::dir`] that is a file system of its own.
    pub fn disk(&self, name: &str, bytes: u64) -> PathBuf {
        let path = self.subdir(name);
        mount_disk(&path, bytes);
        path
    }

    /// A /24 for pods that is as good as unique to this test.
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

/// Mounts a file system of its own, in memory, which is to be below a scratch directory: it goes with that.
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

/// The file that names the process of the test.
const OWNER: &str = "owner";

/// Where bulky scratch goes: `$ORLOP_TEST_DIR`, else memory, else the temporary directory.
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

/// Where volatile things go: memory, below a path as short as a node's own.
fn run_base() -> PathBuf {
    /// What `statfs` says of a tmpfs (`linux/magic.h`).
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

/// Detaches every mount below `dir` (and on it), the last made first.
pub fn unmount_below(dir: &Path) {
    for point in mounts_below(dir).into_iter().rev() {
        if let Err(e) = unmount(&point, UnmountFlags::DETACH) {
            eprintln!("testkit: unmounting {}: {e}", point.display());
        }
    }
}

/// The mount points at and below `dir`, in the order they were made.
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
