//! Cgroups of this very machine: each test makes its own and removes it.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use orlop_cgroup::{Cgroup, CgroupPath, Entry, Error, Hierarchies, Limits, OomWatch, StatsReader};

fn patience() -> Duration {
    Duration::from_secs(5) * orlop_testkit::machine::patience()
}

/// A cgroup that ends with the test.
struct Own(Cgroup);

impl Own {
    fn new(hierarchies: Hierarchies) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = format!("/orlop-cgroup-test-{}-{id}/inner", std::process::id());
        let cgroup = Cgroup::new(Arc::new(hierarchies), CgroupPath::parse(&path).unwrap());
        cgroup.create().unwrap();
        Self(cgroup)
    }

    /// In the hierarchies that govern this machine.
    fn governing() -> Self {
        Self::new(Hierarchies::detect().unwrap())
    }

    /// In every kind of hierarchy there is here; a version 2 tree beside version 1 has few
    /// controllers, yet can hold, freeze and kill.
    fn each() -> Vec<Self> {
        let governing = Hierarchies::detect().unwrap();
        let beside = governing
            .v2_mount()
            .filter(|_| !governing.is_v2())
            .map(|mount| {
                let line = format!("1 0 0:1 / {} rw - cgroup2 cgroup2 rw\n", mount.display());
                Self::new(
                    Hierarchies::from_mounts(&orlop_fs::Mountinfo::from_text(line.as_str()))
                        .unwrap(),
                )
            });
        [Self::governing()].into_iter().chain(beside).collect()
    }

    fn spawn(&self, script: &str) -> Child {
        let door = Entry::open(&self.0).unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).stdout(Stdio::null());
        // SAFETY: `enter` only writes to open files, as is allowed between fork and exec.
        #[allow(unsafe_code)]
        unsafe {
            command.pre_exec(move || door.enter().map_err(Into::into));
        }
        command.spawn().unwrap()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = self.0.kill(patience());
        let above = self.0.path().parent().unwrap();
        let above = Cgroup::new(Arc::new(self.0.hierarchies().clone()), above);
        let removed = above.remove(patience());
        if !std::thread::panicking() {
            removed.unwrap();
            assert!(!above.exists());
        }
    }
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    orlop_testkit::block_until!(patience(), holds(), "{what}");
}

fn state(pid: u32) -> char {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

#[test]
fn a_process_enters_and_is_killed_with_all_it_forked() {
    for own in Own::each() {
        let mut child = own.spawn("for i in 1 2 3; do sleep 100 & done; exec sleep 100");
        wait_until("all are in", || own.0.processes().unwrap().len() == 4);
        assert_eq!(
            own.0.processes_in_one().unwrap(),
            own.0.processes().unwrap()
        );
        let line = fs::read_to_string(format!("/proc/{}/cgroup", child.id())).unwrap();
        assert!(line.contains(own.0.path().as_str()), "{line}");
        own.0.kill(patience()).unwrap();
        assert!(own.0.processes().unwrap().is_empty());
        assert!(!child.wait().unwrap().success());
    }
}

#[test]
fn everything_below_is_killed_and_removed_too() {
    for own in Own::each() {
        let below = own.0.path().child("below").unwrap();
        let below = Own(Cgroup::new(Arc::new(own.0.hierarchies().clone()), below));
        below.0.create().unwrap();
        let mut child = below.spawn("sleep 100");
        own.0.kill(patience()).unwrap();
        assert!(!child.wait().unwrap().success());
        own.0.remove(patience()).unwrap();
        assert!(!below.0.exists());
        // What is gone already is no failure.
        own.0.remove(patience()).unwrap();
        own.0.kill(patience()).unwrap();
    }
}

#[test]
fn a_fork_bomb_is_killed() {
    let own = Own::governing();
    own.0
        .set(&Limits {
            pids: Some(64),
            ..Limits::default()
        })
        .unwrap();
    // The sleepers stay when the shells end for want of processes.
    let mut child = own.spawn("f() { sleep 100 & f | f & f; }; f 2>/dev/null; sleep 100");
    wait_until("it grows", || own.0.processes().unwrap().len() > 10);
    own.0.kill(patience()).unwrap();
    let _ = child.wait();
    assert!(own.0.processes().unwrap().is_empty());
}

#[test]
fn one_process_is_asked_to_end_by_a_real_time_signal() {
    const RTMIN_PLUS_3: u32 = 37;
    let (own, other) = (Own::governing(), Own::governing());
    let mut child = own.spawn("trap 'exit 6' RTMIN+3; sleep 100 & wait");
    wait_until("it listens", || own.0.processes().unwrap().len() == 2);
    let pid = child.id().cast_signed();
    assert!(!other.0.signal_one(pid, RTMIN_PLUS_3).unwrap());
    assert!(own.0.signal_one(pid, RTMIN_PLUS_3).unwrap());
    assert_eq!(child.wait().unwrap().code(), Some(6));
}

#[test]
fn frozen_processes_stand_still_and_can_be_killed() {
    for own in Own::each() {
        let mut child = own.spawn("while :; do :; done");
        wait_until("it runs", || state(child.id()) == 'R');
        own.0.freeze().unwrap();
        let used = || {
            let stat = fs::read_to_string(format!("/proc/{}/schedstat", child.id())).unwrap();
            stat.split(' ').next().unwrap().to_owned()
        };
        let before = used();
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(before, used());
        own.0.thaw().unwrap();
        wait_until("it goes on", || before != used());
        own.0.freeze().unwrap();
        own.0.kill(patience()).unwrap();
        assert!(!child.wait().unwrap().success());
    }
}

#[test]
fn what_a_container_froze_below_itself_can_be_killed() {
    for own in Own::each() {
        let below = own.0.path().child("a").unwrap().child("b").unwrap();
        let below = Own(Cgroup::new(Arc::new(own.0.hierarchies().clone()), below));
        below.0.create().unwrap();
        let mut child = below.spawn("sleep 100");
        below.0.freeze().unwrap();
        own.0.kill(patience()).unwrap();
        assert!(!child.wait().unwrap().success());
        own.0.remove(patience()).unwrap();
    }
}

#[test]
fn many_processes_that_may_use_little_of_a_processor_are_killed_at_once() {
    let own = Own::governing();
    let above = above(&own);
    let mut child = own.spawn(
        "sleep 100 | { exec 3<&0; i=0; while [ $i -lt 1500 ]; do (read x <&3) & i=$((i+1)); done; wait; }",
    );
    wait_until("all are in", || own.0.processes().unwrap().len() > 1500);
    above.set(&little()).unwrap();
    own.0.set(&little()).unwrap();
    own.0.kill(patience()).unwrap();
    assert!(!child.wait().unwrap().success());
    // What others live under is as it was.
    assert_eq!(quota(&above), "1000");
}

#[test]
fn a_limit_that_somebody_raised_who_died_while_killing_is_given_back() {
    let own = Own::governing();
    let above = above(&own);
    let raised = || {
        above.set(&little()).unwrap();
        let dir = above.directory("cpu").unwrap();
        let file = dir.join(quota_file(&above));
        let before = fs::read_to_string(&file).unwrap();
        let flags = rustix::fs::XattrFlags::empty();
        let (name, before) = ("trusted.orlop.cpu-limit", before.trim().as_bytes());
        rustix::fs::setxattr(&dir, name, before, flags).unwrap();
        fs::write(file, "100001").unwrap();
    };
    raised();
    above.give_back_limit().unwrap();
    assert_eq!(quota(&above), "1000");
    // Or by who kills next.
    raised();
    let mut child = own.spawn("sleep 100");
    own.0.kill(patience()).unwrap();
    assert!(!child.wait().unwrap().success());
    assert_eq!(quota(&above), "1000");
    // Once.
    above
        .set(&Limits {
            cpu_quota: Some(100_001),
            ..little()
        })
        .unwrap();
    above.give_back_limit().unwrap();
    assert_eq!(quota(&above), "100001");
}

#[test]
fn what_vanishes_while_it_is_killed_is_killed() {
    // A kernel before 5.14, played by a directory: it has no cgroup.kill.
    let mount = tempfile::tempdir().unwrap();
    fs::write(
        mount.path().join("cgroup.controllers"),
        "cpu memory pids freezer",
    )
    .unwrap();
    let dir = mount.path().join("pod");
    let mut child = Command::new("sleep").arg("100").spawn().unwrap();
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("cgroup.procs"), child.id().to_string()).unwrap();
    fs::write(dir.join("cgroup.events"), "frozen 1\n").unwrap();
    let line = format!(
        "1 0 0:1 / {} rw - cgroup2 cgroup2 rw\n",
        mount.path().display()
    );
    let table = orlop_fs::Mountinfo::from_text(line.as_str());
    let hierarchies = Hierarchies::from_mounts(&table).unwrap();
    let cgroup = Cgroup::new(Arc::new(hierarchies), CgroupPath::parse("/pod").unwrap());
    let killed = std::thread::scope(|scope| {
        let killed = scope.spawn(|| cgroup.kill(patience()));
        assert!(!child.wait().unwrap().success());
        // It is told to thaw meanwhile, which would make a file anew.
        while dir.exists() {
            let _ = fs::remove_dir_all(&dir);
        }
        killed.join().unwrap()
    });
    killed.unwrap();
}

fn above(own: &Own) -> Cgroup {
    let above = own.0.path().parent().unwrap();
    Cgroup::new(Arc::new(own.0.hierarchies().clone()), above)
}

/// A hundredth of a processor.
fn little() -> Limits {
    Limits {
        cpu_quota: Some(1_000),
        cpu_period: Some(100_000),
        ..Limits::default()
    }
}

fn quota_file(cgroup: &Cgroup) -> &'static str {
    if cgroup.hierarchies().is_v2() {
        "cpu.max"
    } else {
        "cpu.cfs_quota_us"
    }
}

/// The microseconds of a processor that it may use in a tenth of a second.
fn quota(cgroup: &Cgroup) -> String {
    let file = cgroup.directory("cpu").unwrap().join(quota_file(cgroup));
    let text = fs::read_to_string(file).unwrap();
    text.split_whitespace().next().unwrap().to_owned()
}

#[test]
fn limits_are_read_back_by_the_statistics() {
    let own = Own::governing();
    let limits = |memory: i64| Limits {
        cpu_shares: Some(512),
        cpu_quota: Some(50_000),
        cpu_period: Some(100_000),
        memory: Some(memory),
        memory_and_swap: Some(memory),
        pids: Some(77),
        ..Limits::default()
    };
    // Up, down, up: memory and swap must not get in each other's way.
    for memory in [64 << 20, 32 << 20, 128 << 20] {
        own.0.set(&limits(memory)).unwrap();
        let stats = StatsReader::new(&own.0).read().unwrap();
        assert_eq!(stats.memory.unwrap().limit, Some(memory as u64));
        assert_eq!(stats.memory.unwrap().swap_limit, Some(0));
        assert_eq!(stats.pids.unwrap().limit, Some(77));
    }
    let none = Limits {
        memory: Some(-1),
        memory_and_swap: Some(-1),
        pids: Some(-1),
        ..Limits::default()
    };
    own.0.set(&none).unwrap();
    let stats = StatsReader::new(&own.0).read().unwrap();
    assert_eq!(
        (stats.memory.unwrap().limit, stats.pids.unwrap().limit),
        (None, None)
    );
}

#[test]
fn what_is_used_is_counted_time_and_again() {
    for own in Own::each() {
        let mut reader = StatsReader::new(&own.0);
        let before = reader.cpu().unwrap().unwrap_or_default().usage_ns;
        let mut child = own.spawn("while :; do :; done");
        wait_until("CPU time is counted", || {
            reader
                .cpu()
                .unwrap()
                .is_none_or(|cpu| cpu.usage_ns > before + 10_000_000)
        });
        if let Some(pids) = reader.read().unwrap().pids {
            assert_eq!(pids.current, 1);
        }
        if let Some(memory) = reader.memory().unwrap() {
            assert!(memory.usage > 0 && memory.working_set <= memory.usage);
            // Kernels gather this one per processor and may take seconds to add it up.
            wait_until("page faults are counted", || {
                reader
                    .memory()
                    .unwrap()
                    .is_none_or(|memory| memory.page_faults > 0)
            });
        }
        own.0.kill(patience()).unwrap();
        let _ = child.wait();
    }
}

#[test]
fn a_removed_cgroup_is_told_by_the_error() {
    let own = Own::governing();
    let mut reader = StatsReader::new(&own.0);
    reader.read().unwrap();
    own.0.remove(patience()).unwrap();
    let error = reader.read().unwrap_err();
    assert!(error.is_not_found(), "{error}");
}

#[test]
fn running_out_of_memory_is_told_and_counted() {
    let own = Own::governing();
    own.0
        .set(&Limits {
            memory: Some(16 << 20),
            memory_and_swap: Some(16 << 20),
            ..Limits::default()
        })
        .unwrap();
    let watch = OomWatch::new(&own.0).unwrap();
    let mut reader = StatsReader::new(&own.0);
    assert_eq!(reader.oom().unwrap().unwrap().kills, 0);
    let mut child = own.spawn("x=a; while :; do x=$x$x; done");
    let ready = {
        let mut fds = [rustix::event::PollFd::from_borrowed_fd(
            watch.as_fd(),
            watch.interest(),
        )];
        let timeout = rustix::event::Timespec {
            tv_sec: 20,
            tv_nsec: 0,
        };
        rustix::event::poll(&mut fds, Some(&timeout)).unwrap()
    };
    assert_eq!(ready, 1);
    watch.clear();
    assert!(!child.wait().unwrap().success());
    wait_until("the kill is counted", || {
        reader.oom().unwrap().unwrap().kills == 1
    });
}

#[test]
fn a_running_process_can_be_moved() {
    for (own, other) in Own::each().into_iter().zip(Own::each()) {
        let mut child = own.spawn("exec sleep 100");
        other.0.attach(child.id() as i32).unwrap();
        assert_eq!(other.0.processes().unwrap(), [child.id() as i32]);
        assert!(own.0.processes().unwrap().is_empty());
        other.0.kill(patience()).unwrap();
        let _ = child.wait();
    }
}

#[test]
fn a_cgroup_in_use_is_not_removed_under_its_processes() {
    for own in Own::each() {
        let mut child = own.spawn("sleep 100");
        wait_until("it is in", || !own.0.processes().unwrap().is_empty());
        let error = own.0.remove(Duration::from_millis(20)).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
        assert!(Path::new(&format!("/proc/{}", child.id())).exists());
        own.0.kill(patience()).unwrap();
        let _ = child.wait();
    }
}
