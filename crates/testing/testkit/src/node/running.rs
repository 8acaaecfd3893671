//! A running node.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::cri::{Cri, PodSpec};
use crate::docker::DockerEngine;
use crate::leaks::{self, Leak};
use crate::machine::CgroupDriver;
use crate::node::builder::{NodeBuilder, Which};
use crate::node::directories::socket;
use crate::node::v1_only::V1Only;
use crate::node::{containerd, cri_dockerd, crio, network, orlop, teardown};
use crate::process::Process;
use crate::registry::Registry;
use crate::scratch::Scratch;

const START_LIMIT: Duration = Duration::from_secs(30);
const STOP_LIMIT: Duration = Duration::from_secs(15);

/// A running node in scratch directories. Dropping it removes everything that carries its name. [`Node::finish`]
/// asserts that nothing is left.
#[derive(Debug)]
pub struct Node {
    builder: NodeBuilder,
    // Dropped manually in this order: the process, its resources, the directories.
    process: Option<Process>,
    /// Helper process of the reference.
    beside: Option<Process>,
    engine: Option<DockerEngine>,
    /// Registry of the pause image.
    images: Option<Registry>,
    v1_only: Option<V1Only>,
    scratch: Scratch,
}

/// Result of a start under a tracer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The daemon responds.
    Answers,
    /// The daemon exited before it responded.
    Ended(ExitStatus),
}

impl NodeBuilder {
    /// Starts the node and waits until it responds.
    pub async fn start(self) -> Node {
        Node::launch(self).await
    }
}

impl Node {
    /// Starts a node with defaults and the runtime that the environment selects.
    pub async fn start() -> Self {
        Self::any().start().await
    }

    /// Describes a node with the runtime that the environment selects.
    pub fn any() -> NodeBuilder {
        NodeBuilder::new(Which::from_environment())
    }

    /// Describes a node with orlop, independent of the environment.
    pub fn orlop() -> NodeBuilder {
        NodeBuilder::new(Which::Orlop)
    }

    /// Describes a node with the reference, containerd.
    pub fn containerd() -> NodeBuilder {
        NodeBuilder::new(Which::Containerd)
    }

    /// Describes a node with the configured cri-dockerd and its own engine.
    pub fn cri_dockerd() -> NodeBuilder {
        NodeBuilder::new(Which::CriDockerd)
    }

    /// Describes a node with the configured CRI-O.
    pub fn crio() -> NodeBuilder {
        NodeBuilder::new(Which::Crio)
    }

    async fn launch(builder: NodeBuilder) -> Self {
        builder.check();
        teardown::sweep_abandoned();
        let scratch = Scratch::new();
        let mut node = Self {
            v1_only: V1Only::for_runtime(&builder.runtime, &scratch),
            builder,
            process: None,
            beside: None,
            engine: None,
            images: None,
            scratch,
        };
        network::write_cni(&node.scratch);
        match node.builder.which {
            Which::Orlop => orlop::prepare(&node.builder, &node.scratch),
            Which::Containerd => {
                containerd::prepare(&node.builder, &node.scratch);
                node.beside = containerd::start_stargz(&node.builder, &node.scratch);
            }
            Which::Crio => node.images = Some(crio::prepare(&node.builder, &node.scratch).await),
            Which::CriDockerd => {
                node.engine = Some(cri_dockerd::start_engine(&node.builder, &node.scratch));
            }
        }
        node.spawn();
        node.ready().await;
        if node.builder.which == Which::Containerd {
            containerd::import_pause(&node.builder, &node.scratch);
        }
        node
    }

    /// Returns whether the runtime is not orlop.
    pub fn is_peer(&self) -> bool {
        self.builder.which != Which::Orlop
    }

    /// Returns whether it reports runtime specifications with environments: cri-dockerd does not.
    pub fn tells_specifications(&self) -> bool {
        self.builder.which != Which::CriDockerd
    }

    /// Returns whether it reports statistics of pods whose containers have exited: CRI-O does not.
    pub fn tells_figures_of_what_has_ended(&self) -> bool {
        self.builder.which != Which::Crio
    }

    /// Returns the name that all its resources carry.
    pub fn id(&self) -> &str {
        self.scratch.id()
    }

    /// Returns its scratch directories.
    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// Returns its socket.
    pub fn socket(&self) -> PathBuf {
        socket(&self.scratch)
    }

    /// Returns its root directory, for persistent data.
    pub fn root(&self) -> PathBuf {
        self.scratch.path("root")
    }

    /// Returns its state directory, for volatile data.
    pub fn state(&self) -> PathBuf {
        self.scratch.run().join("s")
    }

    /// Returns the socket for NRI plugins (orlop only).
    pub fn plugin_socket(&self) -> PathBuf {
        orlop::plugin_socket(&self.scratch)
    }

    /// Returns the process ID of the daemon.
    pub fn pid(&self) -> u32 {
        self.process.as_ref().expect("the daemon runs").pid()
    }

    /// Returns the process ID of the daemon, unless it has exited.
    pub fn pid_if_any(&self) -> Option<u32> {
        self.process.as_ref().map(Process::pid)
    }

    /// Returns the daemon's log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(log_file(&self.scratch)).unwrap_or_default()
    }

    /// Returns the process ID of the reference's snapshotter, if it has one.
    pub fn beside_pid(&self) -> Option<u32> {
        self.beside.as_ref().map(Process::pid)
    }

    /// Connects CRI clients to its socket.
    pub async fn cri(&self) -> Cri {
        Cri::connect(&self.socket())
            .await
            .expect("connect to the node's socket")
    }

    /// Describes a pod of this node, below its cgroup and with its own log directory.
    pub fn pod(&self, name: &str) -> PodSpec {
        let logs = self.scratch.subdir(&format!("logs/{name}"));
        PodSpec::new(name, self.id(), self.cgroup_parent(), logs)
    }

    /// Returns the parent cgroup of all pods of this node, as the kubelet would name it.
    fn cgroup_parent(&self) -> String {
        match CgroupDriver::of_tests() {
            CgroupDriver::Systemd => format!("{}.slice", self.id()),
            CgroupDriver::Cgroupfs => format!("/{}", self.id()),
        }
    }

    /// Kills the daemon with SIGKILL; its pods continue to run.
    pub fn kill9(&mut self) {
        self.process.take().expect("the daemon runs").kill();
    }

    /// Stops the daemon; its pods continue to run.
    pub fn stop(&mut self) -> ExitStatus {
        self.process
            .take()
            .expect("the daemon runs")
            .stop(STOP_LIMIT)
    }

    /// Sends the daemon a signal.
    pub fn signal(&mut self, signal: Signal) {
        self.process
            .as_mut()
            .expect("the daemon runs")
            .signal(signal);
    }

    /// Waits until the daemon has exited.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        self.process.as_mut().expect("the daemon runs").wait(limit)
    }

    /// Restarts a stopped daemon with the same directories, and waits until it responds.
    pub async fn start_again(&mut self) {
        assert!(self.process.is_none(), "the daemon still runs");
        self.spawn();
        self.ready().await;
    }

    /// Restarts a stopped daemon under a tracer that replaces itself by it (`strace -D …`). Waits until it responds or
    /// exits; `None` if it does neither.
    pub async fn start_again_beneath(&mut self, tracer: &Command) -> Option<Start> {
        assert!(self.process.is_none(), "the daemon still runs");
        self.spawn_beneath(Some(tracer));
        let deadline = Instant::now() + START_LIMIT;
        while Instant::now() < deadline {
            if let Ok(cri) = Cri::connect(&self.socket()).await
                && cri.version().await.is_ok()
            {
                return Some(Start::Answers);
            }
            if let Some(status) = self.process.as_mut().and_then(Process::ended) {
                self.process = None;
                return Some(Start::Ended(status));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        None
    }

    /// Restarts a stopped daemon with the programs of another version, or with the usual ones.
    pub async fn start_again_with(&mut self, programs: Option<&Path>) {
        self.builder.programs = programs.map(Path::to_owned);
        orlop::prepare(&self.builder, &self.scratch);
        self.start_again().await;
    }

    /// Stops and restarts the daemon.
    pub async fn restart(&mut self) {
        self.stop();
        self.start_again().await;
    }

    /// Simulates a reboot: removes the state directory with all processes, mounts, cgroups and interfaces.
    pub fn reboot(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
        self.v1_only = None;
        teardown::end_all(&self.scratch);
        teardown::remove_links(&self.scratch);
        self.v1_only = V1Only::for_runtime(&self.builder.runtime, &self.scratch);
        let state = self.state();
        orlop_fs::remove_tree(&state)
            .and_then(|()| std::fs::create_dir(&state))
            .unwrap_or_else(|e| panic!("emptying {}: {e}", state.display()));
    }

    /// Returns all resources with the node's name, except those that a node keeps without pods.
    pub fn leaks(&self) -> BTreeSet<Leak> {
        let daemon = self.process.iter().chain(&self.beside).map(Process::pid);
        let own: Vec<u32> = daemon.chain(self.v1_only.iter().map(V1Only::pid)).collect();
        let mut leaks = leaks::find(self.id(), &own);
        leaks.retain(|leak| !self.is_its_own(leak));
        leaks
    }

    /// Returns whether a resource belongs to the node itself: the bridge, the parent cgroups of pods and keepers, the
    /// directory with private mounts, the server of lazy layers.
    fn is_its_own(&self, leak: &Leak) -> bool {
        match leak {
            Leak::Interface(name) => name == self.id(),
            Leak::Cgroup(path) => {
                path.ends_with(self.cgroup_parent().trim_start_matches('/'))
                    || path.ends_with(orlop::keepers_cgroup(&self.scratch))
            }
            Leak::Mount(path) => {
                let shared = self.v1_only.is_some();
                *path == self.state().join("private")
                    // Mounts of EROFS layers, as long as their images exist.
                    || path.starts_with(self.scratch.dir().join("root/images/mounts"))
                    // Mounts of lazy layers, as long as the daemon runs.
                    || *path == self.scratch.dir().join("root/images/lazy")
                    || self.builder.which == Which::Crio && crio::keeps(path, &self.scratch)
                    || shared && [self.scratch.dir(), self.scratch.run()].contains(&path.as_path())
            }
            Leak::Process(_, command) => command
                .split(' ')
                .next()
                .is_some_and(|program| program.ends_with("/orlop-lazy")),
            Leak::Netns(_) => false,
        }
    }

    /// Removes all pods over CRI, and asserts that only resources of the node itself are left.
    pub async fn finish(mut self) {
        let cri = self.cri().await;
        cri.remove_all_pods().await.expect("remove all pods");
        let deadline = Instant::now() + Duration::from_secs(5);
        // The kernel removes namespaces asynchronously, and processes may still be exiting.
        while !self.leaks().is_empty() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(
            self.leaks(),
            BTreeSet::new(),
            "left behind after all pods were removed"
        );
        drop(cri);
        let status = self.stop();
        assert!(
            self.is_peer() || status.success(),
            "the daemon ended badly: {status}"
        );
    }

    fn spawn(&mut self) {
        self.spawn_beneath(None);
    }

    fn spawn_beneath(&mut self, tracer: Option<&Command>) {
        let mut command = match self.builder.which {
            Which::Orlop => orlop::command(&self.builder, &self.scratch),
            Which::Containerd => containerd::command(&self.builder, &self.scratch),
            Which::Crio => crio::command(&self.scratch),
            Which::CriDockerd => {
                let engine = self.engine.as_ref().expect("the engine was started");
                cri_dockerd::command(engine, &self.scratch)
            }
        };
        command.envs(self.builder.env.iter().map(|(key, value)| (key, value)));
        if let Some(tracer) = tracer {
            let mut traced = Command::new(tracer.get_program());
            traced.args(tracer.get_args());
            traced.arg(command.get_program()).args(command.get_args());
            traced.envs(self.builder.env.iter().map(|(key, value)| (key, value)));
            command = traced;
        }
        if let Some(namespace) = &self.v1_only {
            command = namespace.enter(&command);
        }
        let log = log_file(&self.scratch);
        self.process = Some(Process::spawn("the daemon", &mut command, &log));
    }

    /// Waits until the daemon responds to `Version`.
    async fn ready(&mut self) {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            if let Ok(cri) = Cri::connect(&self.socket()).await
                && cri.version().await.is_ok()
            {
                return;
            }
            let ended = self.process.as_mut().and_then(Process::ended);
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "the daemon does not answer ({})",
                ended.map_or_else(
                    || format!("waited {START_LIMIT:?}"),
                    |s| format!("ended: {s}")
                ),
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.stop(STOP_LIMIT);
        }
        let beside = self.beside.take().map(|process| process.log());
        if std::thread::panicking() {
            if let Some(log) = beside {
                eprintln!("--- the log of what is beside it ---\n{log}");
            }
            eprintln!(
                "--- the daemon's log ---\n{}--- end of the daemon's log ---",
                self.log()
            );
        }
        teardown::end_all(&self.scratch);
        teardown::remove_links(&self.scratch);
        drop(self.images.take());
    }
}

fn log_file(scratch: &Scratch) -> PathBuf {
    scratch.path("daemon.log")
}
