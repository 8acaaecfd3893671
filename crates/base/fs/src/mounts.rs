//! Finds the file system of a path without accessing it.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::Mountinfo;

/// In-memory file systems of the kernel: access to them never blocks.
const IN_MEMORY: [&str; 18] = [
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "hugetlbfs",
    "mqueue",
    "nsfs",
    "proc",
    "pstore",
    "ramfs",
    "securityfs",
    "sysfs",
    "tmpfs",
];

/// The kernel's limit of followed symlinks.
const MAX_LINKS: usize = 40;

/// A file system that is not the node's own, such as a network file system.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stranger {
    device: String,
    /// Its type: `nfs4`, `fuse.sshfs` …
    pub kind: String,
    /// The mount point through which the path reaches it first.
    pub point: PathBuf,
}

impl Stranger {
    /// Returns an ID that is the same for all mounts of one file system.
    pub fn id(&self) -> String {
        self.device.clone()
    }
}

/// The mounts by their mount points.
#[derive(Debug, Default)]
pub struct MountTable {
    points: Arc<Points>,
    /// The devices of the node's own file systems.
    own: BTreeSet<String>,
}

type Points = HashMap<PathBuf, Mounted>;

/// The cached mount table, valid until the next mount or unmount. A Kubernetes node has hundreds of mounts. Reading
/// them takes the kernel a millisecond, in which no other process can mount. If a directory above a mount is renamed,
/// the cache keeps the old path.
#[derive(Debug)]
struct Kept {
    /// Signals changes of the table.
    file: File,
    points: Arc<Points>,
}

impl Kept {
    fn read() -> io::Result<Self> {
        let file = File::open("/proc/self/mountinfo")?;
        let mut kept = Self {
            file,
            points: Arc::default(),
        };
        // Changes after this check are reported by the next one.
        kept.is_old()?;
        kept.points = Arc::new(points(&Mountinfo::own()?));
        Ok(kept)
    }

    /// Returns whether there was a change since the last check.
    fn is_old(&self) -> io::Result<bool> {
        let mut asked = [PollFd::new(&self.file, PollFlags::PRI)];
        let none = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        loop {
            match poll(&mut asked, Some(&none)) {
                Ok(_) => return Ok(asked[0].revents().contains(PollFlags::PRI)),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[derive(Debug, Clone)]
struct Mounted {
    device: String,
    kind: String,
}

fn points(mountinfo: &Mountinfo) -> Points {
    let mut points = Points::new();
    for mount in mountinfo.mounts() {
        let (device, kind) = (mount.device(), mount.kind().to_owned());
        // Of several mounts at one path the last is visible.
        points.insert(mount.point(), Mounted { device, kind });
    }
    points
}

impl MountTable {
    /// Returns the current mounts. The file systems of the root and of `own` are the node's own: if those do not
    /// respond, nothing works.
    pub fn now(own: &[PathBuf]) -> io::Result<Self> {
        static KEPT: Mutex<Option<Kept>> = Mutex::new(None);
        // A thread that panicked has left it consistent.
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = match kept.take() {
            Some(still) if !still.is_old()? => kept.insert(still),
            _ => kept.insert(Kept::read()?),
        };
        Ok(Self::new(Arc::clone(&kept.points), own))
    }

    fn new(points: Arc<Points>, own: &[PathBuf]) -> Self {
        let own = own.iter().map(PathBuf::as_path);
        let own = own
            .chain([Path::new("/")])
            .filter_map(|path| path.ancestors().find_map(|above| points.get(above)))
            .map(|mounted| mounted.device.clone())
            .collect();
        Self { points, own }
    }

    /// Returns the first file system on a path that is not the node's own. Accesses only the node's own.
    pub fn stranger_on_the_way_to(&self, path: &Path) -> Option<Stranger> {
        let mut ahead = Vec::new();
        push(&mut ahead, path);
        let mut at = PathBuf::from("/");
        let mut links = 0;
        while let Some(step) = ahead.pop() {
            let name = match step {
                Step::Root => {
                    at = PathBuf::from("/");
                    continue;
                }
                Step::Up => {
                    at.pop();
                    continue;
                }
                Step::Into(name) => name,
            };
            at.push(name);
            if let Some(mounted) = self.points.get(&at) {
                if self.is_strange(mounted) {
                    let Mounted { device, kind } = mounted.clone();
                    let point = at;
                    return Some(Stranger {
                        device,
                        kind,
                        point,
                    });
                }
                continue;
            }
            match std::fs::read_link(&at) {
                Ok(target) => {
                    links += 1;
                    // The kernel returns the same error to a process that follows it.
                    if links > MAX_LINKS {
                        return None;
                    }
                    at.pop();
                    push(&mut ahead, &target);
                }
                // Not a symlink.
                Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {}
                // The file is missing, or the path cannot be followed.
                Err(_) => return None,
            }
        }
        None
    }

    fn is_strange(&self, mounted: &Mounted) -> bool {
        !self.own.contains(&mounted.device) && !IN_MEMORY.contains(&mounted.kind.as_str())
    }
}

enum Step {
    Root,
    Up,
    Into(OsString),
}

/// Puts the steps of a path before the remaining ones.
fn push(ahead: &mut Vec<Step>, path: &Path) {
    let steps = path.components().filter_map(|component| match component {
        Component::RootDir => Some(Step::Root),
        Component::ParentDir => Some(Step::Up),
        Component::Normal(name) => Some(Step::Into(name.to_owned())),
        Component::CurDir | Component::Prefix(_) => None,
    });
    let steps: Vec<Step> = steps.collect();
    ahead.extend(steps.into_iter().rev());
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Returns a node whose volumes are below `dir`, one on a separate disk, one on a file server.
    fn table(dir: &Path) -> MountTable {
        let dir = dir.display();
        let text = format!(
            "20 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
             21 20 0:5 / /dev rw - devtmpfs none rw\n\
             22 20 8:16 / {dir}/data rw master:3 shared:2 - xfs /dev/sdb rw\n\
             23 20 0:44 / {dir}/a\\040server rw - nfs4 server:/x rw\n\
             24 20 0:45 / {dir}/memory rw - tmpfs none rw\n\
             25 20 8:1 /x {dir}/bound rw - ext4 /dev/sda1 rw\n\
             26 20 8:32 / {dir}/disk rw - ext4 /dev/sdc rw\n"
        );
        MountTable::new(
            Arc::new(points(&Mountinfo::from_text(text))),
            &[PathBuf::from(format!("{dir}/data/orlop"))],
        )
    }

    #[test]
    fn a_path_is_followed_to_the_first_file_system_that_is_not_the_nodes_own() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().canonicalize().unwrap();
        for made in ["data/pods", "a server", "memory", "bound", "disk", "plain"] {
            std::fs::create_dir_all(dir.join(made)).unwrap();
        }
        symlink("../a server/x", dir.join("plain/link")).unwrap();
        symlink(dir.join("plain/link/y"), dir.join("memory/far")).unwrap();
        symlink("loop", dir.join("loop")).unwrap();
        let table = table(&dir);
        let met = |path: &str| {
            let stranger = table.stranger_on_the_way_to(&dir.join(path));
            stranger.map(|stranger| {
                (
                    stranger.kind,
                    stranger.point.strip_prefix(&dir).unwrap().to_owned(),
                )
            })
        };
        let server = || Some(("nfs4".to_owned(), PathBuf::from("a server")));
        for own in ["plain", "data/pods", "memory", "bound", "none/x", "loop"] {
            assert_eq!(met(own), None, "{own}");
        }
        for theirs in [
            "a server",
            "a server/../plain",
            "plain/link",
            "memory/far",
            "plain/../a server/z",
        ] {
            assert_eq!(met(theirs), server(), "{theirs}");
        }
        let disk = met("disk/volume");
        assert_eq!(disk, Some(("ext4".to_owned(), PathBuf::from("disk"))));
    }

    #[test]
    fn what_is_mounted_later_is_seen_and_what_nothing_has_changed_is_kept() {
        use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
        let dir = tempfile::tempdir().unwrap();
        let own = [PathBuf::from("/")];
        let sees = || {
            MountTable::now(&own)
                .unwrap()
                .points
                .contains_key(dir.path())
        };
        assert!(!sees());
        for _ in 0..3 {
            mount("none", dir.path(), "tmpfs", MountFlags::empty(), None).unwrap();
            let seen = sees();
            unmount(dir.path(), UnmountFlags::DETACH).unwrap();
            assert!(seen);
            assert!(!sees());
        }
        // Another process may mount something between the two.
        let kept = || {
            let first = MountTable::now(&own).unwrap();
            Arc::ptr_eq(&first.points, &MountTable::now(&own).unwrap().points)
        };
        assert!((0..100).any(|_| kept()));
        assert!(
            MountTable::now(&[PathBuf::from("/proc/self")])
                .unwrap()
                .own
                .len()
                > 1
        );
        assert_eq!(MountTable::now(&own).unwrap().own.len(), 1);
    }

    #[test]
    fn this_nodes_own_directories_are_its_own() {
        let table = MountTable::now(&[]).unwrap();
        assert_eq!(
            table.stranger_on_the_way_to(Path::new("/proc/self/status")),
            None
        );
        assert_eq!(table.stranger_on_the_way_to(Path::new("/dev/null")), None);
    }
}
