//! Speeds up the exit of killed processes that have little CPU time: an exit needs CPU time, too. With a hundredth of a
//! CPU, six hundred processes took 39 seconds.
//!
//! If a kill takes long, the limits of the killed cgroups are lifted. The limit of the parent cgroup, which other
//! processes share, is raised to one CPU. Its old value is stored as an extended attribute of the cgroup's directory,
//! which survives a crash: the next process that kills there, or is asked to, restores it. If several kill below one
//! cgroup, the first one to finish restores the limit, and the others raise it again. If a limit cannot be restored
//! now, it is retried later (`owed.rs`); the kill has succeeded anyway.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::cgroup::write_everywhere;
use crate::owed::owe;
use crate::raised_limit::{give_back, raise, read};
use crate::{Cgroup, Error};

/// A slower kill gets help. Most kills take some milliseconds.
const SLOW: Duration = Duration::from_millis(200);

/// A kill that may need help.
#[derive(Debug)]
pub(crate) struct Hurry {
    begun: Instant,
    place: Option<Place>,
    /// The cgroup's own limit, while it is lifted.
    own: Option<String>,
}

/// The files of the limits.
#[derive(Debug)]
struct Place {
    top: PathBuf,
    above: Option<PathBuf>,
    name: &'static str,
    /// The value for no limit.
    none: &'static str,
}

impl Place {
    fn of(cgroup: &Cgroup) -> Option<Self> {
        let (controller, name, none) = if cgroup.hierarchies().is_v2() {
            ("cgroup", "cpu.max", "max")
        } else {
            ("cpu", "cpu.cfs_quota_us", "-1")
        };
        let top = cgroup.directory(controller)?;
        let above = cgroup.path().parent().filter(|above| !above.is_root());
        let above = above.and(top.parent()).map(Path::to_owned);
        Some(Self {
            top,
            above,
            name,
            none,
        })
    }
}

impl Cgroup {
    pub(crate) fn hurry(&self) -> Hurry {
        Hurry {
            begun: Instant::now(),
            place: Place::of(self),
            own: None,
        }
    }

    /// Restores the CPU limit of this cgroup if a process raised it and died during a kill below. A failure is retried
    /// later.
    pub fn give_back_limit(&self) -> Result<(), Error> {
        match Place::of(self) {
            Some(Place { top, name, .. }) => give_back_or_owe(&top, name),
            None => Ok(()),
        }
    }
}

impl Hurry {
    /// Raises limits if the kill takes long, again if they were lowered. If that fails, the kill just takes longer.
    pub(crate) fn on(&mut self) {
        let Some(place) = self.place.as_ref().filter(|_| self.begun.elapsed() >= SLOW) else {
            return;
        };
        if let Ok(limit) = read(&place.top, place.name)
            && (self.own.is_none() || !limit.starts_with(place.none))
        {
            let _ = write_everywhere(&place.top, place.name, place.none);
            self.own = Some(limit);
        }
        if let Some(above) = &place.above {
            let _ = raise(above, place.name);
        }
    }

    /// Restores all limits, including those left by processes that died.
    pub(crate) fn end(self) {
        let Some(place) = &self.place else {
            return;
        };
        if let Some(own) = &self.own
            && read(&place.top, place.name).is_ok_and(|limit| limit.starts_with(place.none))
        {
            // The killed processes are most often gone by now; others live under the limit again.
            let _ = fs::write(place.top.join(place.name), own);
        }
        if let Some(above) = &place.above {
            let _ = give_back_or_owe(above, place.name);
        }
    }
}

fn give_back_or_owe(dir: &Path, name: &'static str) -> Result<(), Error> {
    give_back(dir, name).inspect_err(|_| owe(dir, name))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::Arc;
    use std::thread;

    use orlop_testkit::skip;
    use rustix::fs::{FlockOperation, XattrFlags, flock, setxattr};
    use tempfile::TempDir;

    use super::*;
    use crate::raised_limit::{KEPT, kept};
    use crate::{CgroupPath, Hierarchies};

    /// Two version 2 cgroups and those of a container below them, as plain directories.
    fn nested() -> (TempDir, Cgroup) {
        let mount = tempfile::tempdir().unwrap();
        fs::write(mount.path().join("cgroup.controllers"), "cpu memory pids").unwrap();
        for dir in ["pod", "pod/container", "pod/container/own"] {
            let dir = mount.path().join(dir);
            fs::create_dir(&dir).unwrap();
            fs::write(dir.join("cpu.max"), "1000 100000\n").unwrap();
        }
        let line = format!("1 0 0:1 / {} rw - cgroup2 x rw\n", mount.path().display());
        let table = orlop_fs::Mountinfo::from_text(line.as_str());
        let hierarchies = Arc::new(Hierarchies::from_mounts(&table).unwrap());
        let path = CgroupPath::parse("/pod/container").unwrap();
        (mount, Cgroup::new(hierarchies, path))
    }

    fn limit(mount: &TempDir, dir: &str) -> String {
        read(&mount.path().join(dir), "cpu.max").unwrap()
    }

    fn has_attributes() -> bool {
        let dir = tempfile::tempdir().unwrap();
        setxattr(dir.path(), KEPT, b"", XattrFlags::empty()).is_ok()
    }

    #[test]
    fn what_takes_long_is_helped_and_limited_as_before_when_it_is_given_up() {
        if !has_attributes() {
            skip!("needs trusted attributes");
        }
        let (mount, cgroup) = nested();
        let limits = || {
            ["pod", "pod/container", "pod/container/own"].map(|dir| match limit(&mount, dir) {
                // A kernel file would not keep the rest of the old value.
                none if none.starts_with("max") => "max".to_owned(),
                limit => limit,
            })
        };
        let little = "1000 100000";
        let late = || Hurry {
            begun: Instant::now().checked_sub(SLOW).unwrap(),
            ..cgroup.hurry()
        };
        let mut soon = cgroup.hurry();
        soon.on();
        assert_eq!(limits(), [little; 3]);

        let (mut one, mut other) = (late(), late());
        one.on();
        other.on();
        let helped = ["100001 100000", "max", "max"];
        assert_eq!(limits(), helped);
        one.end();
        assert_eq!(limits(), [little, little, "max"]);
        other.on();
        assert_eq!(limits(), helped);
        soon.end();
        other.on();
        other.end();
        assert_eq!(limits(), [little, little, "max"]);
    }

    #[test]
    fn a_limit_that_was_set_meanwhile_stays() {
        if !has_attributes() {
            skip!("needs trusted attributes");
        }
        let (mount, _) = nested();
        let pod = mount.path().join("pod");
        for other in ["100000 100000", "20000 100000", "max 100000"] {
            fs::write(pod.join("cpu.max"), "1000 100000\n").unwrap();
            raise(&pod, "cpu.max").unwrap();
            assert_eq!(limit(&mount, "pod"), "100001 100000");
            fs::write(pod.join("cpu.max"), other).unwrap();
            give_back(&pod, "cpu.max").unwrap();
            assert_eq!(limit(&mount, "pod"), other);
            assert_eq!(kept(&pod).unwrap(), None);
        }
        // One CPU is enough.
        fs::write(pod.join("cpu.max"), "100000 100000").unwrap();
        raise(&pod, "cpu.max").unwrap();
        assert_eq!(limit(&mount, "pod"), "100000 100000");
    }

    #[test]
    fn a_limit_that_somebody_is_at_is_not_raised() {
        let (mount, _) = nested();
        let pod = mount.path().join("pod");
        let held = File::open(&pod).unwrap();
        flock(&held, FlockOperation::LockExclusive).unwrap();
        raise(&pod, "cpu.max").unwrap_err();
        assert_eq!(limit(&mount, "pod"), "1000 100000");
    }

    #[test]
    fn a_limit_is_given_back_by_who_finds_nothing_to_kill() {
        if !has_attributes() {
            skip!("needs trusted attributes");
        }
        let (mount, cgroup) = nested();
        raise(&mount.path().join("pod"), "cpu.max").unwrap();
        cgroup.kill(Duration::ZERO).unwrap();
        assert_eq!(limit(&mount, "pod"), "1000 100000");
    }

    #[test]
    fn a_limit_that_could_not_be_given_back_is_given_back_later() {
        if !has_attributes() {
            skip!("needs trusted attributes");
        }
        let (mount, cgroup) = nested();
        let pod = mount.path().join("pod");
        raise(&pod, "cpu.max").unwrap();
        let held = File::open(&pod).unwrap();
        flock(&held, FlockOperation::LockExclusive).unwrap();
        cgroup.kill(Duration::ZERO).unwrap();
        assert_eq!(limit(&mount, "pod"), "100001 100000");
        drop(held);
        let deadline = Instant::now() + Duration::from_secs(30);
        while limit(&mount, "pod") != "1000 100000" {
            assert!(Instant::now() < deadline, "it was not tried again");
            thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn to_what_is_gone_nothing_is_given_back() {
        let (mount, cgroup) = nested();
        drop(mount);
        cgroup.give_back_limit().unwrap();
        cgroup.hurry().end();
    }
}
