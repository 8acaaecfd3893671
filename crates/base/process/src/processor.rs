//! The processor on which a new process or thread starts.
//!
//! The kernel starts it on the least loaded processor, which is rarely that of its parent. That processor must be
//! woken, or has other work and runs the new process after a time slice of about 3 ms. On a busy node a container start
//! has half a dozen of these delays. A parent that only waits for its child leaves its own processor to it: no
//! processor is woken, and the caches are warm.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// While this exists, its thread stays on its processor, and its new processes start there. They stay there until they
/// or their parent [release](Here::release) them.
#[derive(Debug)]
pub struct Here {
    anywhere: CpuSet,
}

impl Here {
    /// Binds the thread to its processor; `None` if there is only one, or if the kernel does not allow it.
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

    /// Lets a process use all processors that the thread could use before.
    pub fn release(&self, process: Pid) {
        // If this fails, the process has ended.
        let _ = sched_setaffinity(Some(process), &self.anywhere);
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.anywhere);
    }
}

/// Lets the calling thread use all processors of its cgroup, instead of those inherited from its parent.
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

    /// Runs a test on a separate thread, whose binding affects no other test.
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
