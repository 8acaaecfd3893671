//! A server in a mount namespace of its own, layers of made-up bytes, and a daemon that fetches them.
#![allow(
    clippy::disallowed_methods,
    reason = "tests read what they wrote themselves"
)]
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a test fails by panicking"
)]

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use orlop_lazy::{Answers, Event, Events, Fetch, Held, PART, Parts, Place, ReadFailed, Server};
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};

pub(crate) const LIMIT: Duration = Duration::from_mins(1);

/// The server: `$ORLOP_LAZY_BIN`, else the one that was built with the test.
fn program() -> PathBuf {
    std::env::var_os("ORLOP_LAZY_BIN")
        .unwrap_or_else(|| env!("CARGO_BIN_EXE_orlop-lazy").into())
        .into()
}

/// Why none of this can be tried here, if it cannot.
pub(crate) fn may_serve() -> Result<(), String> {
    match File::options().read(true).write(true).open("/dev/fuse") {
        Ok(_) if rustix::process::geteuid().is_root() => Ok(()),
        Ok(_) => Err("needs root".to_owned()),
        Err(error) => Err(format!("needs /dev/fuse: {error}")),
    }
}

/// A server under test. It ends, and all mounts with it, when this is dropped or its process is killed.
pub(crate) struct Node {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) place: Place,
    /// `None` while there is no server.
    pub(crate) server: Option<Server>,
    guard: Child,
}

impl Node {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    /// A server whose place is changed first.
    pub(crate) fn with(change: impl FnOnce(&mut Place)) -> Self {
        // What this thread starts is in the namespace, too, and nobody else is.
        // SAFETY: no descriptors are unshared.
        #[allow(unsafe_code, reason = "threads of a test have mounts of their own")]
        unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.unwrap();
        mount_change(
            "/",
            MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
        )
        .unwrap();
        let dir = tempfile::tempdir().unwrap();
        let mut place = Place {
            program: program(),
            directory: dir.path().join("server"),
            mount_point: dir.path().join("files"),
            by_journal: false,
        };
        change(&mut place);
        // It outlives whoever starts it, a test that was killed with its group, too. This ends it then.
        let guard = Command::new("setsid")
            .args([
                "sh",
                "-c",
                "while read pid; do pids=$pid; done; kill -9 $pids 2>/dev/null",
            ])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut node = Self {
            dir,
            place,
            server: None,
            guard,
        };
        let server = Server::start(&node.place).unwrap();
        node.is_served_by(server);
        node
    }

    fn is_served_by(&mut self, server: Server) {
        self.guard(&server);
        self.server = Some(server);
    }

    /// Sees to it that a server ends with the test, in place of the one before.
    pub(crate) fn guard(&mut self, server: &Server) {
        let line = format!("{}\n", server.pid());
        let guard = self.guard.stdin.as_mut().unwrap();
        guard.write_all(line.as_bytes()).unwrap();
    }

    pub(crate) fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    /// Kills the server, and has a successor take over.
    pub(crate) fn succeed(&mut self) {
        let held = self.kill();
        let server = Server::succeed(&self.place, &held).unwrap();
        self.is_served_by(server);
    }

    /// Kills the server. What is left of it.
    pub(crate) fn kill(&mut self) -> Held {
        let server = self.server.take().unwrap();
        kill(server.pid());
        server.into_held()
    }

    /// A layer of which nothing is here.
    pub(crate) fn layer(&self, key: &str, size: u64, timeout: Duration) -> Layer {
        let directory = self.dir.path().join(format!("layer-{key}"));
        let parts = Parts::create(&directory, size).unwrap();
        self.server().add(key, &directory, size, timeout).unwrap();
        Layer {
            file: self.place.mount_point.join(key),
            directory,
            parts: Arc::new(parts),
            size,
        }
    }

    /// What the server printed where nobody looks.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.place.directory.join("lazy.log")).unwrap_or_default()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the server's log:\n{}", self.log());
        }
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
        // The directory cannot be removed before.
        let detach = rustix::mount::UnmountFlags::DETACH;
        while rustix::mount::unmount(&self.place.mount_point, detach).is_ok() {}
    }
}

pub(crate) fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// A layer of made-up bytes.
pub(crate) struct Layer {
    pub(crate) file: PathBuf,
    pub(crate) directory: PathBuf,
    pub(crate) parts: Arc<Parts>,
    pub(crate) size: u64,
}

impl Layer {
    /// Has these bytes be here.
    pub(crate) fn fetch(&self, offset: u64, length: u64) {
        fill(&self.parts, offset, length);
    }

    pub(crate) fn open(&self) -> File {
        File::open(&self.file).unwrap()
    }
}

/// Reads of a layer and looks at what comes.
pub(crate) fn check(file: &File, offset: u64, length: u64) -> std::io::Result<()> {
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, offset)?;
    let right = bytes == content(offset, length);
    assert!(right, "wrong bytes at {offset}+{length}");
    Ok(())
}

/// The bytes of every layer: no two words are alike.
pub(crate) fn content(offset: u64, length: u64) -> Vec<u8> {
    let first = offset / 8;
    let words = (first..(offset + length).div_ceil(8)).map(mix);
    let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    let skip = (offset - first * 8) as usize;
    bytes[skip..skip + length as usize].to_vec()
}

/// A number that looks like any other.
pub(crate) fn mix(number: u64) -> u64 {
    let mut mixed = number
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(0x1234_5678_9abc_def1);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

pub(crate) fn fill(parts: &Parts, offset: u64, length: u64) {
    let mut at = offset;
    while at < offset + length {
        let step = (offset + length - at).min(16 * PART);
        parts.write(at, &content(at, step)).unwrap();
        at += step;
    }
    parts.mark(offset..offset + length).unwrap();
}

/// A daemon: a thread that fetches what is asked for.
pub(crate) struct Daemon {
    answers: Answers,
    thread: Option<JoinHandle<(Vec<Fetch>, Vec<ReadFailed>)>>,
    pub(crate) fetches: Arc<AtomicU64>,
}

impl Daemon {
    /// One that has each fetch done by this.
    pub(crate) fn new(
        server: &Server,
        mut fetch: impl FnMut(&Fetch) -> Result<(), String> + Send + 'static,
    ) -> Self {
        Self::that_answers(server, move |wanted, answers| {
            // A server that was killed is told nothing any more.
            let _ = match fetch(wanted) {
                Ok(()) => answers.is_here(wanted.id),
                Err(reason) => answers.failed(wanted.id, &reason),
            };
        })
    }

    /// One that has each fetch done and answered by this.
    pub(crate) fn that_answers(
        server: &Server,
        mut fetch: impl FnMut(&Fetch, &Answers) + Send + 'static,
    ) -> Self {
        let mut events: Events = server.events().unwrap();
        let answers = events.answers();
        let counter = Arc::new(AtomicU64::new(0));
        let fetches = Arc::clone(&counter);
        let thread = std::thread::spawn(move || {
            let answers = events.answers();
            let (mut all, mut failures) = (Vec::new(), Vec::new());
            while let Ok(event) = events.next() {
                match event {
                    Event::Fetch(wanted) => {
                        counter.fetch_add(1, Ordering::Relaxed);
                        fetch(&wanted, &answers);
                        all.push(wanted);
                    }
                    Event::ReadFailed(failed) => failures.push(failed),
                }
            }
            (all, failures)
        });
        Self {
            answers,
            thread: Some(thread),
            fetches,
        }
    }

    /// One that fetches parts of these layers.
    pub(crate) fn of(server: &Server, layers: &[&Layer]) -> Self {
        let layers: Vec<_> = layers
            .iter()
            .map(|layer| {
                let key = layer.file.file_name().unwrap().to_str().unwrap().to_owned();
                (key, Arc::clone(&layer.parts))
            })
            .collect();
        Self::new(server, move |wanted| {
            let (_, parts) = layers.iter().find(|(key, _)| *key == wanted.key).unwrap();
            fill(parts, wanted.offset, wanted.length);
            Ok(())
        })
    }

    /// Ends it: what it was asked, and what it was told.
    pub(crate) fn end(mut self) -> (Vec<Fetch>, Vec<ReadFailed>) {
        self.answers.close();
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.answers.close();
    }
}

/// Waits until something is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    orlop_testkit::block_until!(LIMIT, is_so(), "{what}: not within {LIMIT:?}");
}
