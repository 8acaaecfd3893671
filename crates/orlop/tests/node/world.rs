//! A runtime with a busybox image, and agents on it.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use orlop_testkit::node::binary;
use orlop_testkit::process::Process;
use orlop_testkit::{Cri, Node, NodeBuilder, Registry};
use serde_json::Value;

/// How long what should come soon may take on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(40);

/// The name that agents of tests give their node.
pub(crate) const NODE: &str = "n1";

/// Begins a test: skips it where no pod can run, else gives a [`World`].
macro_rules! world {
    () => {{
        orlop_testkit::skip_unless!(orlop_testkit::machine::can_run_pods());
        $crate::world::World::on(orlop_testkit::Node::any()).await
    }};
}
pub(crate) use world;

/// A runtime with a busybox image.
pub(crate) struct World {
    pub(crate) cri: Cri,
    // The image's layers come from it.
    pub(crate) registry: Registry,
    pub(crate) busybox: String,
    pub(crate) node: Node,
}

impl World {
    pub(crate) async fn on(node: NodeBuilder) -> Self {
        let node = node.start().await;
        let cri = node.cri().await;
        let (registry, busybox) = Registry::with_busybox().await;
        cri.pull(&busybox).await.expect("pull busybox");
        Self {
            cri,
            registry,
            busybox,
            node,
        }
    }

    /// The directory of manifests.
    pub(crate) fn manifests(&self) -> PathBuf {
        self.node.scratch().subdir("manifests")
    }

    /// Writes a manifest as an editor does: in one step.
    pub(crate) fn write(&self, file: &str, text: &str) {
        let path = self.manifests().join(file);
        let new = self.manifests().join(format!(".{file}"));
        fs::write(&new, text).unwrap();
        fs::rename(new, path).unwrap();
    }

    pub(crate) fn remove(&self, file: &str) {
        fs::remove_file(self.manifests().join(file)).unwrap();
    }

    /// A pod that sleeps, with a line of YAML for its spec and one for its container.
    pub(crate) fn sleeper(&self, name: &str, spec: &str, container: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\nspec:\n  \
             terminationGracePeriodSeconds: 2\n  {spec}\n  containers:\n  - name: main\n    image: \
             {}\n    imagePullPolicy: Never\n    command: [sh, -c, 'echo hello; trap exit TERM; \
             while :; do sleep 1; done']\n    {container}\n",
            self.busybox
        )
    }

    /// Starts an agent on the directory of manifests.
    pub(crate) fn agent(&self, args: &[&str]) -> Agent {
        let manifests = self.manifests();
        let manifests = ["--pod-manifest-path", manifests.to_str().unwrap()];
        self.bare_agent(&[&manifests[..], args].concat())
    }

    /// Starts an agent.
    pub(crate) fn bare_agent(&self, args: &[&str]) -> Agent {
        self.agent_reading(Stdio::null(), args)
    }

    /// Starts an agent with a standard input.
    pub(crate) fn agent_reading(&self, input: Stdio, args: &[&str]) -> Agent {
        let scratch = self.node.scratch();
        let socket = scratch.run().join("agent.sock");
        let root = scratch.subdir("agent");
        let mut command = Command::new(binary());
        command
            .arg("node")
            .arg("--container-runtime-endpoint")
            .arg(format!("unix://{}", self.node.socket().display()))
            .arg("--root-dir")
            .arg(&root)
            .arg("--control-socket")
            .arg(&socket)
            .arg("--pod-logs-dir")
            .arg(scratch.subdir("pod-logs"))
            .arg("--cgroup-root")
            .arg(format!("/{}", self.node.id()))
            .args(["--container-logs-dir=", "--hostname-override", NODE])
            .args(["--port=0", "--eviction-hard="])
            .args(args);
        if !args.iter().any(|arg| arg.starts_with("--healthz-port=")) {
            command.arg("--healthz-port=0");
        }
        let log = scratch.path("agent.log");
        let mut process = Process::spawn_reading(input, "the agent", &mut command, &log);
        process.wait_until(SOON, "the agent's socket", || {
            UnixStream::connect(&socket).is_ok()
        });
        Agent {
            process,
            socket,
            root,
        }
    }

    /// Ends the node and asserts that nothing was left behind.
    pub(crate) async fn finish(self) {
        drop(self.cri);
        // The cgroups of classes stay, as a kubelet's do; those of pods must be gone.
        for cgroup in orlop_testkit::leaks::cgroups(self.node.id())
            .into_iter()
            .rev()
        {
            let name = cgroup
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if matches!(name.as_str(), "kubepods" | "burstable" | "besteffort") {
                remove_cgroup(&cgroup).await;
            }
        }
        self.node.finish().await;
    }
}

/// Removes a cgroup, which the kernel may hold for a moment after the last below it is gone.
async fn remove_cgroup(cgroup: &Path) {
    let deadline = Instant::now() + SOON;
    while let Err(error) = fs::remove_dir(cgroup) {
        let waits = error.kind() == std::io::ErrorKind::ResourceBusy;
        assert!(
            waits && Instant::now() < deadline,
            "{}: {error}",
            cgroup.display()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A running agent.
pub(crate) struct Agent {
    pub(crate) process: Process,
    pub(crate) socket: PathBuf,
    pub(crate) root: PathBuf,
}

impl Agent {
    /// Asks through its socket; answers status and body.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        ask(&self.socket, method, path, body)
    }

    pub(crate) fn get(&self, path: &str) -> String {
        let (status, body) = self.ask("GET", path, "");
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.get(path)).unwrap()
    }

    /// The pod of a name, as `/pods` has it.
    pub(crate) fn pod(&self, name: &str) -> Option<Value> {
        let pods = self.json("/pods");
        let items = pods["items"].as_array().unwrap();
        items
            .iter()
            .find(|pod| pod["metadata"]["name"] == name)
            .cloned()
    }

    /// Waits until a pod is as wanted, and answers it.
    pub(crate) async fn until(
        &mut self,
        name: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        let deadline = Instant::now() + SOON;
        let mut last = None;
        loop {
            let pod = self.pod(name);
            if let Some(pod) = pod {
                if wanted(&pod) {
                    return pod;
                }
                last = Some(pod["status"].clone());
            }
            assert!(
                self.process.ended().is_none() && Instant::now() < deadline,
                "{name} is not {what}: {last:#?}\n{}",
                self.process.log()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until a pod is ready.
    pub(crate) async fn ready(&mut self, name: &str) -> Value {
        self.until(name, "ready", is_ready).await
    }

    /// Waits until a pod is gone; answers how long that took.
    pub(crate) async fn gone(&mut self, name: &str) -> Duration {
        let begin = Instant::now();
        orlop_testkit::wait_until!(
            SOON,
            self.pod(name).is_none(),
            "{name} is still there:\n{}",
            self.process.log()
        );
        begin.elapsed()
    }

    /// Waits until a pod's container has written this and no more.
    pub(crate) async fn log(&self, pod: &str, wanted: &str) {
        let path = format!("/containerLogs/default/{pod}/main");
        let deadline = Instant::now() + SOON;
        let mut log = self.get(&path);
        while log != wanted && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(50)).await;
            log = self.get(&path);
        }
        assert_eq!(log, wanted);
    }

    /// The remarks on manifests, as people read them.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let status = self.json("/orlop/v1/status");
        let remarks = status["remarks"].as_array().unwrap().iter();
        remarks
            .map(|it| {
                format!(
                    "{}:{}: {} {}: {}",
                    it["origin"].as_str().unwrap_or_default(),
                    it["line"],
                    it["weight"].as_str().unwrap_or_default(),
                    it["object"].as_str().unwrap_or_default(),
                    it["text"].as_str().unwrap_or_default()
                )
            })
            .collect()
    }

    /// Waits for a remark with these words.
    pub(crate) async fn remark(&self, words: &[&str]) -> String {
        let deadline = Instant::now() + SOON;
        loop {
            let remarks = self.remarks();
            let mut fitting = remarks
                .iter()
                .filter(|it| words.iter().all(|word| it.contains(word)));
            if let Some(found) = fitting.next() {
                return found.clone();
            }
            assert!(Instant::now() < deadline, "no {words:?} in {remarks:#?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Ends it; its pods go on.
    pub(crate) fn stop(mut self) {
        let status = self.process.stop(SOON);
        assert!(status.success(), "{status}\n{}", self.process.log());
    }

    /// Removes all manifests and waits until nothing of them runs, then ends it.
    pub(crate) async fn finish(mut self, world: &World) {
        for entry in fs::read_dir(world.manifests()).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        orlop_testkit::wait_until!(
            SOON,
            self.json("/pods")["items"].as_array().unwrap().is_empty(),
            "pods stay:\n{}",
            self.process.log()
        );
        // An agent that has just begun does not list the pods that no manifest names. It ends them all the same, and
        // removes their cgroups last.
        orlop_testkit::wait_until!(
            SOON,
            !has_cgroups_of_pods(world),
            "cgroups of pods stay:\n{}",
            self.process.log()
        );
        assert!(self.process.ended().is_none());
        self.stop();
    }
}

fn has_cgroups_of_pods(world: &World) -> bool {
    let cgroups = orlop_testkit::leaks::cgroups(world.node.id());
    let mut names = cgroups
        .iter()
        .filter_map(|cgroup| cgroup.file_name()?.to_str());
    names.any(|name| name.starts_with("pod") || name.contains("-pod"))
}

/// Whether a pod is ready.
pub(crate) fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|it| it["type"] == "Ready" && it["status"] == "True")
}

/// The runtime's ids of a pod's containers.
pub(crate) fn container_ids(pod: &Value) -> Vec<String> {
    let statuses = pod["status"]["containerStatuses"].as_array();
    let statuses = statuses.into_iter().flatten();
    statuses
        .filter_map(|status| status["containerID"].as_str().map(str::to_owned))
        .collect()
}

/// HTTP/1.0 needs no more than this: the end of the answer is the end of the connection.
pub(crate) fn ask(socket: &Path, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = UnixStream::connect(socket).expect("connect to the agent");
    stream.set_read_timeout(Some(SOON)).unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nHost: node\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok());
    (status.expect("a status"), body.to_owned())
}
