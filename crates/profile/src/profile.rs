//! Taking a profile.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use crate::sample::Threads;
use crate::unwind::{Module, Walker};
use crate::{Error, Stack, Stacks};

/// Between two looks at what the kernel has written.
const PAUSE: Duration = Duration::from_millis(20);

/// How long the samples of the end may take.
const GRACE: Duration = Duration::from_secs(2);

/// What is to be sampled.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The process.
    pub pid: u32,
    /// For how long.
    pub time: Duration,
    /// Samples for each second of processor time.
    pub frequency: u32,
}

/// What was sampled.
#[derive(Debug)]
pub struct Profile {
    pub(crate) pid: u32,
    pub(crate) frequency: u32,
    pub(crate) begun: SystemTime,
    /// For how long.
    pub took: Duration,
    /// What was seen.
    pub stacks: Stacks,
    /// Samples that the kernel had no room for.
    pub lost: u64,
    /// Threads that were too many to be sampled.
    pub left_out: usize,
    /// Whether what the process did in the kernel is in it.
    pub with_kernel: bool,
    pub(crate) threads: HashMap<u32, String>,
    pub(crate) modules: Vec<Module>,
    /// The program, where it was when it was started.
    pub program: PathBuf,
}

/// Samples a process. Ends early when it does. Blocks for the time that is wanted.
pub fn take(wanted: &Wanted) -> Result<Profile, Error> {
    let begun = SystemTime::now();
    let start = Instant::now();
    let pid = wanted.pid;
    let mut threads = Threads::of(pid, wanted.frequency)?;
    let mut walker = Walker::of(pid).map_err(|source| Error::Memory { pid, source })?;
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let mut stacks = Stacks::default();
    let until = start + wanted.time + GRACE;
    let mut late = 0;
    loop {
        let is_over = start.elapsed() >= wanted.time;
        let lives = threads.read(|sample| {
            if Instant::now() >= until {
                late += 1;
                return;
            }
            let (user, is_whole) = match &sample.registers {
                Some(registers) => walker.walk(registers, sample.stack, until),
                None => (Vec::new(), true),
            };
            stacks.add(Stack {
                thread: sample.thread,
                kernel: sample.kernel,
                user,
                is_whole,
            });
        })?;
        if is_over || !lives {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    Ok(Profile {
        pid,
        frequency: wanted.frequency,
        begun,
        took: start.elapsed(),
        stacks,
        lost: threads.lost.saturating_add(late),
        left_out: threads.left_out,
        with_kernel: threads.with_kernel,
        threads: threads.names,
        modules: walker.modules.all,
        program,
    })
}

impl Profile {
    /// How much processor time was seen.
    pub fn busy(&self) -> Duration {
        Duration::from_secs_f64(self.stacks.total() as f64 / f64::from(self.frequency.max(1)))
    }

    /// The number of the module that has a place.
    pub(crate) fn module_number(&self, place: u64) -> Option<usize> {
        let after = self.modules.partition_point(|it| it.start <= place);
        let number = after.checked_sub(1)?;
        (place < self.modules[number].end).then_some(number)
    }

    pub(crate) fn module(&self, place: u64) -> Option<&Module> {
        self.modules.get(self.module_number(place)?)
    }

    /// The name of a thread.
    pub(crate) fn thread(&self, id: u32) -> String {
        let name = self.threads.get(&id).cloned();
        name.unwrap_or_else(|| id.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::time::{ClockId, clock_gettime};

    use super::*;
    use crate::{Format, Names, write};

    #[inline(never)]
    fn work_of_the_innermost(until: &AtomicBool) -> u64 {
        let mut sum = 0_u64;
        while !until.load(Ordering::Relaxed) {
            sum = black_box(sum.wrapping_mul(31).wrapping_add(7));
        }
        sum
    }

    #[inline(never)]
    fn work_of_the_caller(until: &AtomicBool) -> u64 {
        black_box(work_of_the_innermost(until)).wrapping_add(1)
    }

    /// Ours, with a thread at work, and how long that had a processor.
    fn busy() -> (Profile, f64) {
        let until = AtomicBool::new(false);
        // Until it runs it has not its name yet.
        let runs = Barrier::new(2);
        std::thread::scope(|scope| {
            let worker = std::thread::Builder::new().name("at-work".into());
            let worker = worker.spawn_scoped(scope, || {
                runs.wait();
                let begun = clock_gettime(ClockId::ThreadCPUTime);
                black_box(work_of_the_caller(&until));
                let spent = clock_gettime(ClockId::ThreadCPUTime) - begun;
                spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9
            });
            let worker = worker.unwrap();
            runs.wait();
            let wanted = Wanted {
                pid: std::process::id(),
                time: Duration::from_secs(3),
                frequency: 199,
            };
            let taken = take(&wanted);
            until.store(true, Ordering::Relaxed);
            (taken.unwrap(), worker.join().unwrap())
        })
    }

    fn samples<'a>(lines: impl Iterator<Item = &'a str>) -> u64 {
        let counts = lines.map(|line| line.rsplit(' ').next().unwrap());
        counts.map(|count| count.parse::<u64>().unwrap()).sum()
    }

    #[test]
    fn a_busy_thread_is_seen_with_all_its_callers() {
        let (profile, seconds) = busy();
        let names = Names::of(&profile, None).unwrap();
        let mut folded = Vec::new();
        write(&profile, &names, Format::Folded, &mut folded).unwrap();
        let folded = String::from_utf8(folded).unwrap();
        let is_whole = |line: &&str| {
            let of = |name: &str| line.find(&format!("profile::tests::{name}"));
            line.starts_with("at-work;")
                && line.contains("clone")
                && of("work_of_the_caller")
                    .is_some_and(|outer| of("work_of_the_innermost") > Some(outer))
        };
        let seen = samples(folded.lines().filter(is_whole));
        let of_worker = folded.lines().filter(|line| line.starts_with("at-work;"));
        // However little of a processor a machine that others use, too, has for it.
        let rate = samples(of_worker) as f64 / seconds;
        assert!(
            (rate - 199.0).abs() < 20.0,
            "{rate} samples in each of {seconds} s"
        );
        assert!(seen * 10 > profile.stacks.total() * 5, "{seen}: {folded}");
        let torn = profile.stacks.torn();
        assert!(torn * 10 < profile.stacks.total(), "{torn}: {folded}");
    }
}
