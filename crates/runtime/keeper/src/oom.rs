//! Watches a container's cgroup for OOM kills.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;

use rustix::event::{EventfdFlags, eventfd};

use crate::reactor::{Interest, Reactor, Source, Watch};

/// The kernel's count of OOM kills in one cgroup.
#[derive(Debug)]
pub(crate) struct OomWatch {
    counter: File,
    /// Signals that the count may have changed. Without it, the count is read when the container has ended.
    watch: Option<Watch>,
    /// Whether the watch is an eventfd (cgroup v1), which must be read before it signals again.
    eventfd: bool,
    seen: u64,
    /// The count of the parent cgroup, which includes this one (cgroup v2). systemd removes a scope, and its counters,
    /// as soon as it is empty.
    above: Option<(File, u64)>,
}

impl OomWatch {
    /// Watches the cgroup in `dir`, for the container `key`.
    pub(crate) fn new(dir: &Path, key: u64, reactor: &Rc<Reactor>) -> io::Result<Self> {
        let v1 = dir.join("memory.oom_control");
        if v1.exists() {
            let counter = File::open(v1)?;
            let readable = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            let order = format!("{} {}", readable.as_raw_fd(), counter.as_raw_fd());
            fs::write(dir.join("cgroup.event_control"), order)?;
            let watch = Watch::new(reactor, readable, Source::Oom(key), Interest::Read)?;
            return Ok(Self::started(counter, Some(watch), true, None));
        }
        let counter = File::open(dir.join("memory.events"))?;
        // The file itself signals changes to any number of watchers. An inotify instance would count against a limit
        // shared by all of a user's processes on the node.
        let copy = counter.try_clone()?.into();
        let watch = Watch::new(reactor, copy, Source::Oom(key), Interest::Priority);
        let above = dir.parent().map(|above| above.join("memory.events"));
        let above = above.and_then(|above| File::open(above).ok());
        Ok(Self::started(counter, watch.ok(), false, above))
    }

    fn started(counter: File, watch: Option<Watch>, eventfd: bool, above: Option<File>) -> Self {
        let mut watch = Self {
            counter,
            watch,
            eventfd,
            seen: 0,
            above: None,
        };
        watch.seen = count(&watch.counter).unwrap_or(0);
        watch.above = above.and_then(|above| {
            let seen = count(&above)?;
            Some((above, seen))
        });
        watch
    }

    /// Resets the notification.
    pub(crate) fn acknowledge(&self) {
        if self.eventfd
            && let Some(watch) = &self.watch
        {
            let _ = rustix::io::read(watch, &mut [0; 8]);
        }
    }

    /// Returns the number of kills since the last call.
    pub(crate) fn news(&mut self) -> u64 {
        let above = self.above.as_mut().map_or(0, |(above, seen)| {
            let now = count(above).unwrap_or(*seen);
            let news = now.saturating_sub(*seen);
            *seen = now;
            news
        });
        let Some(now) = count(&self.counter) else {
            // A removed cgroup would signal all the time.
            self.watch = None;
            return above;
        };
        let news = now.saturating_sub(self.seen);
        self.seen = now;
        news
    }
}

fn count(counter: &File) -> Option<u64> {
    let mut bytes = [0; 512];
    let count = counter.read_at(&mut bytes, 0).ok()?;
    let text = std::str::from_utf8(&bytes[..count]).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("oom_kill "))?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn ready(reactor: &Rc<Reactor>, limit: Duration) -> bool {
        let ready = reactor.wait(Some(limit));
        ready
            .iter()
            .any(|ready| reactor.source(ready) == Some(Source::Oom(7)))
    }

    /// A cgroup v2 of this node, if it has them; removed when dropped.
    struct Cgroup(std::path::PathBuf);

    impl Cgroup {
        fn new() -> Option<Self> {
            let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
            let root = table.lines().find_map(|line| {
                let (left, right) = line.split_once(" - ")?;
                let place = left.split(' ').nth(4)?;
                right.starts_with("cgroup2 ").then(|| place.to_owned())
            })?;
            let name = format!("orlop-keeper-oom-{}", std::process::id());
            let dir = Path::new(&root).join(name);
            fs::create_dir(&dir).ok().map(|()| Self(dir))
        }
    }

    impl Drop for Cgroup {
        fn drop(&mut self) {
            let _ = fs::remove_dir(&self.0);
        }
    }

    #[test]
    fn a_file_of_the_cgroup_tells_of_its_changes_without_inotify() {
        let Some(cgroup) = Cgroup::new() else {
            orlop_testkit::skip!("no cgroups of version 2 can be made here");
        };
        // Every cgroup has this file, and the kernel signals changes of all such files alike.
        let events = cgroup.0.join("cgroup.events");
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(&events, dir.path().join("memory.events")).unwrap();
        let reactor = Reactor::new().unwrap();
        let watch = OomWatch::new(dir.path(), 7, &reactor).unwrap();
        assert!(!ready(&reactor, Duration::ZERO), "nothing has happened");

        let mut member = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        let pid = member.id().to_string();
        fs::write(cgroup.0.join("cgroup.procs"), pid).unwrap();
        assert!(ready(&reactor, Duration::from_secs(20)), "a change");
        // Once it is read, it signals no more.
        count(&watch.counter);
        assert!(!ready(&reactor, Duration::ZERO), "no other change");
        member.kill().unwrap();
        member.wait().unwrap();
        assert!(ready(&reactor, Duration::from_secs(20)), "the next change");
    }

    #[test]
    fn a_cgroup_that_is_gone_is_not_told_of_for_ever() {
        let Some(cgroup) = Cgroup::new() else {
            orlop_testkit::skip!("no cgroups of version 2 can be made here");
        };
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("memory.events");
        std::os::unix::fs::symlink(cgroup.0.join("cgroup.events"), link).unwrap();
        let reactor = Reactor::new().unwrap();
        let mut watch = OomWatch::new(dir.path(), 7, &reactor).unwrap();
        drop(cgroup);
        assert_eq!(watch.news(), 0);
        assert!(!ready(&reactor, Duration::ZERO));
    }

    #[test]
    fn the_cgroup_above_knows_what_one_that_is_gone_has_counted() {
        let dir = tempfile::tempdir().unwrap();
        let (above, own) = (dir.path().join("memory.events"), dir.path().join("own"));
        fs::create_dir(&own).unwrap();
        let own_file = own.join("memory.events");
        for file in [&above, &own_file] {
            fs::write(file, "oom 1\noom_kill 3\n").unwrap();
        }
        let reactor = Reactor::new().unwrap();
        let mut watch = OomWatch::new(&own, 7, &reactor).unwrap();
        // An OOM kill in another container.
        fs::write(&above, "oom_kill 4\n").unwrap();
        assert_eq!(watch.news(), 0);
        // The files of a removed cgroup have no content.
        fs::write(&own_file, "").unwrap();
        assert_eq!(watch.news(), 0);
        fs::write(&above, "oom_kill 5\n").unwrap();
        assert_eq!(watch.news(), 1);
    }
}
