//! What a node holds: on disk, in the kernel and in its daemon.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use orlop_testkit::Node;

/// How long the daemon may go on tidying up after the last call was answered: its connections to a registry stay for
/// half a minute, one for each request that was under way at a time.
const LIMIT: Duration = Duration::from_secs(40);

/// Files, addresses, links, mounts and descriptors of a node.
#[derive(Debug)]
pub(crate) struct Remains {
    things: BTreeSet<String>,
    descriptors: usize,
}

impl Remains {
    /// All that is there now.
    pub(crate) fn of(node: &Node) -> Self {
        let mut things = BTreeSet::new();
        for dir in [node.root(), node.state(), node.scratch().path("ipam")] {
            walk(&dir, &mut things);
        }
        let ports = Path::new("/sys/class/net").join(node.id()).join("brif");
        for port in entries(&ports) {
            things.insert(format!("link {}", port.display()));
        }
        let daemon = Path::new("/proc").join(node.pid().to_string());
        let mounts = fs::read_to_string(daemon.join("mountinfo")).unwrap_or_default();
        let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
        for point in points.filter(|point| point.contains(node.id())) {
            things.insert(format!("mount {point}"));
        }
        for leak in node.leaks() {
            things.insert(format!("{leak:?}"));
        }
        Self {
            things,
            descriptors: entries(&daemon.join("fd")).len(),
        }
    }

    /// Waits until nothing is there that was not there before.
    pub(crate) async fn settle(node: &Node, before: &Self) {
        if let Err(left) = Self::settled(node, before).await {
            panic!("{left}");
        }
    }

    /// Waits until nothing is there that was not there before, or says what is.
    pub(crate) async fn settled(node: &Node, before: &Self) -> Result<(), String> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let now = Self::of(node);
            let more: Vec<_> = now.things.difference(&before.things).collect();
            if more.is_empty() && now.descriptors <= before.descriptors {
                return Ok(());
            }
            if Instant::now() > deadline {
                let daemon = Path::new("/proc").join(node.pid().to_string());
                let open = entries(&daemon.join("fd"));
                let open = open.iter().filter_map(|fd| fs::read_link(fd).ok());
                return Err(format!(
                    "left over: {more:#?}\ndescriptors of the daemon: {} were {}: {:#?}",
                    now.descriptors,
                    before.descriptors,
                    open.collect::<Vec<_>>()
                ));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

fn walk(dir: &Path, found: &mut BTreeSet<String>) {
    for path in entries(dir) {
        if path.is_dir() && !path.is_symlink() {
            walk(&path, found);
        }
        found.insert(path.display().to_string());
    }
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}
