//! A process without free file descriptors.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

/// Another process without free file descriptors, until this is dropped.
#[derive(Debug)]
pub struct Starved {
    pid: Pid,
    before: Rlimit,
    since: Instant,
    worked: Duration,
}

impl Starved {
    /// Limits a process to the file descriptors that it has.
    pub fn new(pid: u32) -> Self {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).expect("read its descriptors");
        let names = open.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let numbers: Vec<u64> = names.filter_map(|name| name.parse().ok()).collect();
        // The first free number, which the next open would use.
        let free = (0..=numbers.len() as u64).find(|number| !numbers.contains(number));
        let few = Rlimit {
            current: free,
            maximum: getrlimit(Resource::Nofile).maximum,
        };
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let number = number.expect("the number of a process");
        Self {
            pid: number,
            before: prlimit(Some(number), Resource::Nofile, few).expect("limit it"),
            since: Instant::now(),
            worked: processor_time(pid),
        }
    }

    /// Returns its share of a CPU since then.
    pub fn share(&self) -> f64 {
        let worked = processor_time(self.pid.as_raw_pid().unsigned_abs());
        let worked = worked.saturating_sub(self.worked);
        worked.as_secs_f64() / self.since.elapsed().as_secs_f64()
    }
}

impl Drop for Starved {
    fn drop(&mut self) {
        let _ = prlimit(Some(self.pid), Resource::Nofile, self.before);
    }
}

/// Returns the CPU time of a process.
fn processor_time(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("read its figures");
    let (_, fields) = stat.rsplit_once(") ").expect("figures after its name");
    let ticks = fields.split(' ').skip(11).take(2);
    let ticks: u64 = ticks.filter_map(|it| it.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
}
