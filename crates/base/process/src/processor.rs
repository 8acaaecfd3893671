//! On which processor a new process or thread begins.
//!
//! The kernel has it begin where the least is to do, which is hardly ever where its maker is. That
//! processor must be woken, or has work of its own and comes to what is new after a time slice of some
//! 3 ms; on a busy node a container's start has half a dozen of them. A maker that does nothing but wait
//! for what it makes leaves its own processor to it: nothing is woken, and the caches are warm.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// As long as this is there, the thread that made it stays on its processor, and what it makes is born
/// there, and stays, until it or its maker has it go [`anywhere`](Here::release).
#[derive(Debug)]
pub struct Here {
    anywhere: CpuSet,
}

impl Here {
    /// None where there is no other place, or where the kernel does not let us choose.
    pub fn stay() -> Option<Self> {
        let anywhere = sched_getaffinity(None).ok()?;
        let processor = sched_getcpu();
        if anywhere.count() < 2 || processor >= CpuSet::MAX_CPU {
            return None;
        }
        let mut here = CpuSet::new();
        here.set(processor);
        sched_setaffinity(None, &here).ok()?;
        Some(Self { anywhere })
    }

    /// Lets a process go wherever the thread might before.
    pub fn release(&self, process: Pid) {
        // Where it can't be it has ended.
        let _ = sched_setaffinity(Some(process), &self.anywhere);
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.anywhere);
    }
}

/// Lets the calling thread go not where its maker happened to be kept, but wherever its cgroup lets it.
pub fn anywhere() -> rustix::io::Result<()> {
    let mut all = CpuSet::new();
    for processor in 0..CpuSet::MAX_CPU {
        all.set(processor);
    }
    sched_setaffinity(None, &all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a thread of its own, whose place is nobody else's concern.
    fn apart(test: fn()) {
        std::thread::spawn(test).join().unwrap();
    }

    fn has_two_processors() -> Result<(), String> {
        match sched_getaffinity(None).unwrap().count() {
            0 | 1 => Err("needs two processors".to_owned()),
            _ => Ok(()),
        }
    }

    #[test]
    fn what_is_made_meanwhile_begins_here_and_later_nothing_is_bound() {
        orlop_testkit::skip_unless!(has_two_processors());
        apart(|| {
            let before = sched_getaffinity(None).unwrap();
            let here = Here::stay().unwrap();
            let processor = sched_getcpu();
            let born = std::thread::spawn(|| (sched_getcpu(), sched_getaffinity(None).unwrap()));
            let (there, bound) = born.join().unwrap();
            assert_eq!(there, processor);
            assert_eq!(bound.count(), 1);
            drop(here);
            assert_eq!(sched_getaffinity(None).unwrap(), before);
        });
    }

    #[test]
    fn a_process_is_let_go() {
        orlop_testkit::skip_unless!(has_two_processors());
        apart(|| {
            let before = sched_getaffinity(None).unwrap();
            let here = Here::stay().unwrap();
            let mut child = std::process::Command::new("sleep")
                .arg("9")
                .spawn()
                .unwrap();
            let pid = Pid::from_child(&child);
            let bound = sched_getaffinity(Some(pid)).unwrap();
            here.release(pid);
            let free = sched_getaffinity(Some(pid)).unwrap();
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!((bound.count(), free), (1, before));
        });
    }

    #[test]
    fn who_is_bound_already_is_left_alone_and_may_go_anywhere() {
        apart(|| {
            let before = sched_getaffinity(None).unwrap();
            let mut one = CpuSet::new();
            one.set(sched_getcpu());
            sched_setaffinity(None, &one).unwrap();
            assert!(Here::stay().is_none());
            anywhere().unwrap();
            assert!(sched_getaffinity(None).unwrap().count() >= before.count());
        });
    }
}
