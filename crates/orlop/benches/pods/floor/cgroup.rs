//! Cgroups of a pod and its container in all hierarchies of the machine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The cgroups of one pod, or of all.
pub(super) struct Cgroups {
    hierarchies: Vec<PathBuf>,
    is_version_2: bool,
}

/// The container's cgroup within the pod's.
const CONTAINER: &str = "container";

impl Cgroups {
    pub(super) fn new(name: &str) -> Self {
        let mounts = orlop_fs::read_kernel_text("/proc/self/mounts").unwrap_or_default();
        let of_type = |wanted: &str| -> Vec<PathBuf> {
            let lines = mounts.lines().map(|line| line.split(' '));
            lines
                .filter_map(|mut words| {
                    let path = words.nth(1)?;
                    (words.next()? == wanted).then(|| PathBuf::from(path).join(name))
                })
                .collect()
        };
        let version_1 = of_type("cgroup");
        let is_version_2 = version_1.is_empty();
        Self {
            hierarchies: if is_version_2 {
                of_type("cgroup2")
            } else {
                version_1
            },
            is_version_2,
        }
    }

    /// Makes the cgroups above all pods. Those beneath get their processors and memory nodes.
    pub(super) fn make_parents(&self) -> io::Result<()> {
        for dir in &self.hierarchies {
            fs::create_dir(dir)?;
            for name in ["cpus", "mems"] {
                let file = format!("cpuset.{name}");
                if let Ok(all) = orlop_fs::read_kernel_text(dir.with_file_name(&file))
                    && !self.is_version_2
                {
                    fs::write(dir.join(file), all)?;
                    fs::write(dir.join("cgroup.clone_children"), "1")?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn make(&self) -> io::Result<()> {
        for dir in &self.hierarchies {
            fs::create_dir(dir)?;
            fs::create_dir(dir.join(CONTAINER))?;
        }
        Ok(())
    }

    /// Version 1 moves one thread, whose children start there. That is much cheaper than moving a process.
    pub(super) fn join_this_thread(&self) -> io::Result<()> {
        self.write(!self.is_version_2, "tasks", "0")
    }

    /// Version 2 moves whole processes only.
    pub(super) fn join(&self, process: u32) -> io::Result<()> {
        self.write(self.is_version_2, "cgroup.procs", &process.to_string())
    }

    fn write(&self, is_wanted: bool, file: &str, value: &str) -> io::Result<()> {
        let mut hierarchies = self.hierarchies.iter().filter(|_| is_wanted);
        hierarchies.try_for_each(|dir| fs::write(dir.join(CONTAINER).join(file), value))
    }

    /// Removes them with all beneath.
    pub(super) fn remove(&self) -> io::Result<()> {
        self.hierarchies.iter().try_for_each(|dir| remove(dir))
    }
}

fn remove(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove(&entry.path())?;
        }
    }
    // A thread that has just ended may still be counted.
    for _ in 0..1000 {
        match fs::remove_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                std::thread::sleep(Duration::from_millis(1));
            }
            done => return done,
        }
    }
    Err(io::Error::other(format!("{} stays busy", dir.display())))
}
