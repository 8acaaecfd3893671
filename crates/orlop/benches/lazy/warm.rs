//! What is cached, read and looked at in a container's root file system.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, AtFlags, CWD, Mode, OFlags, fadvise, openat, statat, sync};

/// Files that are read and looked at.
const FILES: usize = 1_000;
/// How often all are read; the fastest counts.
const ROUNDS: usize = 40;
/// Threads that look at files, and how long they do.
const THREADS: usize = 2;
const LOOK: Duration = Duration::from_secs(1);

/// A container's files that are cached.
pub(crate) struct Warm {
    root: OwnedFd,
    paths: Vec<String>,
}

impl Warm {
    /// Those of these files, in the container of a process.
    pub(crate) fn of(pid: i32, paths: &[String]) -> Self {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, format!("/proc/{pid}/root"), flags, Mode::empty());
        let paths = paths.iter().take(FILES).cloned().collect();
        let warm = Self {
            root: root.expect("open the container's root"),
            paths,
        };
        warm.read();
        warm
    }

    pub(crate) fn files(&self) -> usize {
        self.paths.len()
    }

    /// Reads all files: how long it takes, and how many bytes they have.
    pub(crate) fn read(&self) -> (Duration, u64) {
        let mut room = vec![0; 128 << 10];
        let mut bytes = 0;
        let begin = Instant::now();
        for path in &self.paths {
            let mut file = self.open(path);
            loop {
                match file.read(&mut room).expect("read a file") {
                    0 => break,
                    count => bytes += count as u64,
                }
            }
        }
        (begin.elapsed(), bytes)
    }

    /// Has the files cached anew, by reading.
    ///
    /// What has just been unpacked is cached in the large pieces in which it was written, which are read
    /// faster; once it was let go of it is cached as what any other disk serves.
    pub(crate) fn cache_anew(&self) {
        sync();
        for path in &self.paths {
            fadvise(self.open(path), 0, None, Advice::DontNeed).expect("forget a file");
        }
        self.read();
    }

    fn open(&self, path: &str) -> File {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = openat(&self.root, path, flags, Mode::empty());
        File::from(file.expect("open a file"))
    }

    /// How many files are looked at in a second.
    pub(crate) fn looks(&self) -> f64 {
        let begin = Instant::now();
        let look = || {
            let mut count = 0_u64;
            while begin.elapsed() < LOOK {
                for path in &self.paths {
                    let found = statat(&self.root, path.as_str(), AtFlags::SYMLINK_NOFOLLOW);
                    found.expect("look at a file");
                    count += 1;
                }
            }
            count
        };
        let count: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(look)).collect();
            let counts = threads
                .into_iter()
                .map(|thread| thread.join().expect("a thread"));
            counts.sum()
        });
        count as f64 / begin.elapsed().as_secs_f64()
    }
}

/// The bytes a second that are read of each of two containers, in turns.
pub(crate) fn read_in_turns(one: &Warm, other: &Warm) -> [f64; 2] {
    let mut best = [0.0_f64; 2];
    for _ in 0..ROUNDS {
        for (warm, best) in [one, other].into_iter().zip(&mut best) {
            let (took, bytes) = warm.read();
            *best = best.max(bytes as f64 / took.as_secs_f64());
        }
    }
    best
}
