//! The memory of the daemon's cgroup runs out.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use orlop_testkit::node::Start;
use orlop_testkit::{Chance, Node, machine, skip};
use rustix::process::Signal;

use super::kills::{Who, kill_again_and_again};
use crate::world::ours;

/// How long it may take until somebody asks for more than there is.
const LIMIT: Duration = Duration::from_secs(20);

/// How long a limit is left as it is.
const STEP: Duration = Duration::from_millis(5);

/// A shell needs no more to become the daemon.
const LEAST: u64 = 2 << 20;

#[tokio::test]
async fn a_daemon_whose_memory_runs_out_loses_and_leaks_nothing() {
    let mut world = ours!();
    world.node.stop();
    let memory = match Memory::of(&world.node) {
        Ok(memory) => memory,
        Err(reason) => skip!("no cgroup has a limit of its own here: {reason}"),
    };
    memory.start(&mut world.node).await;
    world.cri = world.node.cri().await;
    kill_again_and_again(&mut world, Who::Starved(&memory)).await;
    // The cgroup goes only after the daemon.
    world.node.stop();
    drop(memory);
    world.node.start_again().await;
    world.finish().await;
}

/// A cgroup for the daemon, whose pods have others.
pub(super) struct Memory {
    dir: PathBuf,
    v2: bool,
}

impl Memory {
    fn of(node: &Node) -> Result<Self, String> {
        let v2 = machine::is_cgroup_v2();
        let above = PathBuf::from(if v2 {
            "/sys/fs/cgroup"
        } else {
            "/sys/fs/cgroup/memory"
        });
        let dir = above.join(format!("{}-daemon", node.id()));
        fs::create_dir(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let memory = Self { dir, v2 };
        memory.limit(None)?;
        Ok(memory)
    }

    /// Has the daemon killed for want of memory while it works or while it starts; it works again
    /// then, with enough of it.
    pub(super) async fn exhaust(&self, node: &mut Node, chance: &mut Chance) {
        let killed = self.killed();
        if chance.below(2) == 0 {
            self.shrink(node).await;
        } else {
            let enough = self.used();
            node.kill9();
            self.start_with_less(node, enough, chance).await;
        }
        assert!(self.killed() > killed, "the kernel counts no kill");
        self.limit(None).expect("as much as it wants");
        self.start(node).await;
    }

    /// It gets nothing more than it has, until it asks for it.
    async fn shrink(&self, node: &mut Node) {
        let deadline = Instant::now() + LIMIT;
        loop {
            // What is in use and cannot be taken back is refused as a limit, or killed for.
            let _ = self.limit(Some(self.used()));
            if let Some(status) = node.wait(Duration::ZERO) {
                assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "{status}");
                node.kill9();
                return;
            }
            assert!(Instant::now() < deadline, "it never asks for more memory");
            tokio::time::sleep(STEP).await;
        }
    }

    /// It starts with some part of what the last one had.
    async fn start_with_less(&self, node: &mut Node, enough: u64, chance: &mut Chance) {
        // In files, say, which nobody can take back.
        let left = self.used();
        let more = usize::try_from(enough.saturating_sub(left)).expect("it fits the machine");
        let limit = left + LEAST + chance.below(more.max(1)) as u64;
        self.limit(Some(limit)).expect("more than is in use");
        match node.start_again_beneath(&self.entrance()).await {
            Some(Start::Ended(status)) => {
                assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "{status}");
            }
            Some(Start::Answers) => self.shrink(node).await,
            None => panic!("it neither answers nor ends"),
        }
    }

    /// Starts the daemon with what limit there is.
    async fn start(&self, node: &mut Node) {
        let start = node.start_again_beneath(&self.entrance()).await;
        assert_eq!(start, Some(Start::Answers));
    }

    /// Goes into the cgroup and becomes the daemon.
    fn entrance(&self) -> Command {
        let mut command = Command::new("sh");
        let script = r#"echo $$ > "$0" && exec "$@""#;
        command
            .args(["-c", script])
            .arg(self.dir.join("cgroup.procs"));
        command
    }

    fn limit(&self, bytes: Option<u64>) -> Result<(), String> {
        let (file, none) = if self.v2 {
            ("memory.max", "max")
        } else {
            ("memory.limit_in_bytes", "-1")
        };
        let path = self.dir.join(file);
        let text = bytes.map_or_else(|| none.to_owned(), |bytes| bytes.to_string());
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn used(&self) -> u64 {
        let file = if self.v2 {
            "memory.current"
        } else {
            "memory.usage_in_bytes"
        };
        let text = self.read(file);
        text.trim().parse().expect("a number of bytes")
    }

    /// How many were killed in it.
    fn killed(&self) -> u64 {
        let file = if self.v2 {
            "memory.events"
        } else {
            "memory.oom_control"
        };
        let text = self.read(file);
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.and_then(|count| count.parse().ok()).expect("a count")
    }

    fn read(&self, file: &str) -> String {
        let path = self.dir.join(file);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.dir);
    }
}
