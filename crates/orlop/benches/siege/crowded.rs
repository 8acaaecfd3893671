//! A pod with more processes, mounts and cgroups than all other pods together, and what the calls of the others take.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use orlop_testkit::{ContainerSpec, Cri, Node, Scratch, leaks, machine};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};

use crate::calls::Times;

/// How much of each the pod has, if the machine has room for it.
const PROCESSES: u64 = 20_000;
const MOUNTS: u64 = 10_000;
const CGROUPS: u64 = 100_000;

/// So many processes descend from each other, then comes the next chain.
const DEPTH: u64 = 2_000;

/// What the kernel needs for one, in kB: a bound, not a measurement.
const KB_OF_PROCESS: u64 = 400;
const KB_OF_CGROUP: u64 = 40;

/// How long the processes may take to be there.
const LIMIT: Duration = Duration::from_mins(5);

/// Commands that run longer than their time.
const LATE_ROUNDS: usize = 20;

/// The time of such a command, in seconds: CRI has no shorter one.
const TIMEOUT: i64 = 1;

/// A pod that has many of each.
pub(crate) struct Crowded {
    cri: Cri,
    pod: String,
    mounts: Mounts,
}

impl Crowded {
    /// Returns when all of it is there.
    pub(crate) async fn come(node: &Node, image: &str) -> Self {
        let cri = node.cri().await;
        let chains = processes().div_ceil(DEPTH);
        let chain = r#"[ $0 = 0 ] && exec sleep 86400; sh -c "$1" $(($0 - 1)) "$1"; :"#;
        let script = format!(
            "n=0; while [ $n -lt {chains} ]; do sh -c '{chain}' {DEPTH} '{chain}' & n=$((n + 1)); done; wait"
        );
        let pod = node.pod("crowded");
        let pod_id = cri.run_pod(&pod).await.expect("run a pod");
        let spec = ContainerSpec::new("main", image).shell(&script);
        let container = cri.run(&pod_id, &pod, &spec).await;
        let cgroup = cgroup_of(node, &container.expect("run a container"));
        let cgroups = nest(&cgroup);
        let mounts = Mounts::new(node.scratch());
        let end = Instant::now() + LIMIT;
        let wanted = chains * DEPTH;
        while members(&cgroup) < wanted {
            assert!(Instant::now() < end, "{} of {wanted}", members(&cgroup));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let count = mounts.count;
        println!("a pod of {wanted} processes, {count} mounts and {cgroups} cgroups");
        Self {
            cri,
            pod: pod_id,
            mounts,
        }
    }

    /// Ends all of it; returns how long its pod's stop took.
    pub(crate) async fn leave(self) -> Duration {
        let begin = Instant::now();
        self.cri.stop_pod(&self.pod).await.expect("stop");
        let took = begin.elapsed();
        self.cri.remove_pod(&self.pod).await.expect("remove");
        drop(self.mounts);
        took
    }
}

/// The calls of other pods.
pub(crate) struct Others<'n> {
    node: &'n Node,
    cri: Cri,
    image: String,
    container: String,
    rounds: usize,
}

impl<'n> Others<'n> {
    pub(crate) async fn prepare(node: &'n Node, image: &str, rounds: usize) -> Self {
        let cri = node.cri().await;
        cri.pull(image).await.expect("pull the image");
        let pod = node.pod("other");
        let pod_id = cri.run_pod(&pod).await.expect("run a pod");
        let container = cri.run(&pod_id, &pod, &sleeper(image)).await;
        Self {
            node,
            cri,
            image: image.to_owned(),
            container: container.expect("run a container"),
            rounds,
        }
    }

    /// Makes all calls again and again, one after the other.
    pub(crate) async fn measure(&self, when: &str) -> BTreeMap<&'static str, Times> {
        let mut all: BTreeMap<_, Times> = BTreeMap::new();
        let cri = &self.cri;
        for round in 0..=self.rounds {
            let mut took = |name, begin: Instant| {
                // The first of each time is not measured.
                if round > 0 {
                    all.entry(name).or_default().0.push(begin.elapsed());
                }
            };
            let begin = Instant::now();
            let done = cri.exec(&self.container, &["true"]).await;
            assert_eq!(done.expect("a command").exit_code, 0);
            took("ExecSync", begin);

            let pod = self.node.pod(&format!("{when}-{round}"));
            let begin = Instant::now();
            let id = cri.run_pod(&pod).await.expect("a pod");
            took("RunPodSandbox", begin);
            let begin = Instant::now();
            let container = cri.run(&id, &pod, &sleeper(&self.image)).await;
            let container = container.expect("a container");
            took("Create-, StartContainer", begin);
            let begin = Instant::now();
            cri.stop(&container, 0).await.expect("stop the container");
            took("StopContainer", begin);
            let begin = Instant::now();
            cri.stop_pod(&id).await.expect("stop");
            took("StopPodSandbox", begin);
            let begin = Instant::now();
            cri.remove_pod(&id).await.expect("remove");
            took("RemovePodSandbox", begin);
        }
        for _ in 0..LATE_ROUNDS {
            let begin = Instant::now() + Duration::from_secs(TIMEOUT.unsigned_abs());
            let words = ["sleep", "86400"];
            let done = cri.exec_within(&self.container, &words, TIMEOUT).await;
            done.expect_err("it took its time");
            let late = all.entry("ExecSync, after its time").or_default();
            late.0.push(begin.elapsed());
        }
        all
    }
}

fn sleeper(image: &str) -> ContainerSpec {
    ContainerSpec::new("main", image).command(&["sleep", "86400"])
}

/// Mounts of the node, as a pod makes them that mounts volumes for others. They end when this is dropped.
struct Mounts {
    top: PathBuf,
    count: u64,
}

impl Mounts {
    fn new(scratch: &Scratch) -> Self {
        let top = scratch.subdir("mounts");
        mount("crowded", &top, "tmpfs", MountFlags::empty(), None).expect("mount");
        let count = MOUNTS.min(number("/proc/sys/fs/mount-max").unwrap_or(MOUNTS) / 2);
        let mounts = Self { top, count };
        let from = mounts.top.join("from");
        fs::create_dir(&from).expect("a directory");
        for n in 0..count {
            let point = mounts.top.join(n.to_string());
            fs::create_dir(&point).expect("a directory");
            mount_bind(&from, &point).expect("mount");
        }
        mounts
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        let _ = unmount(&self.top, UnmountFlags::DETACH);
    }
}

/// How many processes the machine has room for.
fn processes() -> u64 {
    let most = number("/proc/sys/kernel/pid_max").unwrap_or(PROCESSES);
    PROCESSES
        .min(most * 2 / 3)
        .min(available_kb() / 2 / KB_OF_PROCESS)
}

/// Makes the cgroups below a container's; returns how many.
fn nest(above: &Path) -> u64 {
    let count = CGROUPS.min(available_kb() / 4 / KB_OF_CGROUP);
    for n in 0..count {
        let made = fs::create_dir(above.join(n.to_string()));
        made.expect("a cgroup");
    }
    count
}

/// A container's cgroup; with version 1 that of the hierarchy whose cgroups take the least memory.
fn cgroup_of(node: &Node, container: &str) -> PathBuf {
    let hierarchy = if machine::is_cgroup_v2() { "" } else { "pids" };
    let is_its = |path: &PathBuf| {
        let mut parts = path.iter();
        path.to_string_lossy().contains(container)
            && (hierarchy.is_empty() || parts.any(|part| part == hierarchy))
    };
    let mut cgroups = leaks::cgroups(node.id()).into_iter();
    cgroups.find(is_its).expect("the container's cgroup")
}

fn available_kb() -> u64 {
    let text = orlop_fs::read_kernel_text("/proc/meminfo").expect("the kernel's figures");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number
        .and_then(|number| number.parse().ok())
        .expect("a number")
}

fn number(path: &str) -> Option<u64> {
    orlop_fs::read_kernel_text(path).ok()?.trim().parse().ok()
}

/// How many processes are in a cgroup.
fn members(cgroup: &Path) -> u64 {
    let text = orlop_fs::read_kernel_text(cgroup.join("cgroup.procs")).unwrap_or_default();
    text.lines().count() as u64
}
