//! A node with a runtime, a registry and a manager.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use orlop_kubelet_rules::phase::PodPhase;
use orlop_kuberuntime::manager::{
    Change, Event, Manager, Objects, Options, PodInput, PodView, Shutdown, Stage,
};
use orlop_testkit::machine::CgroupDriver;
use orlop_testkit::{ImageBuilder, Node, NodeBuilder, Registry, leaks};
use serde_json::{Value, json};

pub const LIMIT: Duration = Duration::from_secs(40);

pub struct World {
    pub node: Node,
    pub registry: Registry,
    pub image: String,
    pub manager: Manager,
    pub events: Arc<Mutex<Vec<Event>>>,
}

/// Begins a test: skips it where no pod can run, else gives a [`World`].
macro_rules! world {
    () => {{
        orlop_testkit::skip_unless!(orlop_testkit::machine::can_run_pods());
        $crate::world::World::start().await
    }};
}
pub(crate) use world;

impl World {
    pub async fn start() -> Self {
        Self::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut Options)) -> Self {
        Self::on(Node::any(), change).await
    }

    pub async fn on(node: NodeBuilder, change: impl FnOnce(&mut Options)) -> Self {
        let node = node.start().await;
        let registry = Registry::start();
        let image = registry
            .push(&ImageBuilder::busybox().build(), "box:1")
            .await;
        let mut options = options(&node);
        change(&mut options);
        let manager = Manager::start(options).await.expect("start a manager");
        let events = collect(&manager);
        manager.sources_ready();
        Self {
            node,
            registry,
            image,
            manager,
            events,
        }
    }

    /// A manager that is killed and started anew, by what it leaves on disk.
    pub async fn restart_manager(&mut self, change: impl FnOnce(&mut Options)) {
        self.manager.shutdown(Shutdown::Leave).await;
        let mut options = options(&self.node);
        change(&mut options);
        self.manager = Manager::start(options)
            .await
            .expect("start a manager again");
        self.events = collect(&self.manager);
    }

    /// A container that runs a script.
    pub fn sh(&self, name: &str, script: &str) -> Value {
        json!({"name": name, "image": self.image, "command": ["/bin/sh", "-c", script]})
    }

    /// A container that waits until it is told to stop.
    pub fn idle(&self, name: &str) -> Value {
        self.sh(name, "trap 'exit 0' TERM; while :; do sleep 0.1; done")
    }

    pub fn input(&self, name: &str, spec: Value, objects: &[Value]) -> PodInput {
        let mut spec = spec;
        if spec.get("terminationGracePeriodSeconds").is_none() {
            spec["terminationGracePeriodSeconds"] = json!(3);
        }
        let manifest = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "test", "uid": format!("{}-{name}", self.node.id()),
                         "labels": {"app": name}},
            "spec": spec,
        });
        let mut all = Objects::default();
        for object in objects {
            assert!(all.add(object).expect("an object"));
        }
        PodInput::new("file", manifest, Arc::new(all)).expect("a pod")
    }

    /// Wants a pod; answers its uid.
    pub fn run(&self, name: &str, spec: Value) -> String {
        self.run_with(name, spec, &[])
    }

    pub fn run_with(&self, name: &str, spec: Value, objects: &[Value]) -> String {
        let input = self.input(name, spec, objects);
        let uid = input.uid().to_owned();
        self.manager.set_pod(input);
        uid
    }

    pub async fn until(
        &self,
        uid: &str,
        what: &str,
        holds: impl Fn(&PodView) -> bool,
    ) -> Arc<PodView> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let view = self.manager.pod(uid);
            if let Some(view) = view.as_ref().filter(|view| holds(view)) {
                return view.clone();
            }
            assert!(
                Instant::now() < deadline,
                "not {what} within {LIMIT:?}: {}\n{}",
                view.map_or_else(
                    || "no pod".to_owned(),
                    |v| format!("{} {:#}", v.summary, v.status)
                ),
                self.story(uid),
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until a pod is summed up so.
    pub async fn until_summary(&self, uid: &str, summary: &str) -> Arc<PodView> {
        self.until(uid, summary, |view| view.summary == summary)
            .await
    }

    pub async fn ready(&self, uid: &str) -> Arc<PodView> {
        self.until(uid, "ready", |view| view.ready).await
    }

    pub async fn ended(&self, uid: &str) -> Arc<PodView> {
        self.until(uid, "at its end", |view| view.stage == Stage::Terminated)
            .await
    }

    pub async fn gone(&self, uid: &str) {
        orlop_testkit::wait_until!(
            LIMIT,
            self.manager.pod(uid).is_none(),
            "{uid} is still there\n{}",
            self.story(uid)
        );
    }

    /// What happened to a pod, as `Reason container`.
    pub fn happened(&self, uid: &str) -> Vec<String> {
        let events = self.events.lock().unwrap();
        let own = events.iter().filter(|event| event.uid == uid);
        own.map(|event| {
            let container = event.container.as_deref().unwrap_or("-");
            format!("{} {container}", event.reason)
        })
        .collect()
    }

    pub fn story(&self, uid: &str) -> String {
        let events = self.events.lock().unwrap();
        let own = events.iter().filter(|event| event.uid == uid);
        let lines: Vec<_> = own
            .map(|event| {
                format!(
                    "{} {} {:?}: {}",
                    event.time.rfc3339_nano(),
                    event.reason,
                    event.container,
                    event.message
                )
            })
            .collect();
        lines.join("\n")
    }

    pub async fn event(&self, uid: &str, what: &str) {
        orlop_testkit::wait_until!(
            LIMIT,
            self.happened(uid).iter().any(|event| event == what),
            "no {what}:\n{}",
            self.story(uid)
        );
    }

    /// Runs a command in a container; answers its output.
    pub async fn exec(&self, uid: &str, container: &str, script: &str) -> String {
        let command = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
        let ran = self
            .manager
            .run_in_container(uid, container, command, Duration::from_secs(10))
            .await
            .expect("run a command");
        assert_eq!(
            ran.exit_code,
            0,
            "{script}: {}",
            String::from_utf8_lossy(&ran.stderr)
        );
        String::from_utf8(ran.stdout).unwrap().trim().to_owned()
    }

    /// A directory of the node that pods may mount.
    pub fn dir(&self, name: &str) -> PathBuf {
        self.node.scratch().subdir(name)
    }

    /// Removes all pods and asserts that nothing of them is left.
    pub async fn finish(self) {
        let pods = self.manager.pods();
        for pod in &pods {
            self.manager.remove_pod(&pod.uid, None);
        }
        for pod in &pods {
            self.gone(&pod.uid).await;
        }
        let root = self.manager.options().root_dir.clone();
        self.manager.shutdown(Shutdown::Leave).await;
        for what in ["pods", "checkpoints"] {
            let left: Vec<_> = std::fs::read_dir(root.join(what))
                .unwrap()
                .flatten()
                .collect();
            assert!(left.is_empty(), "left in {what}: {left:?}");
        }
        let logs = std::fs::read_dir(self.node.scratch().path("podlogs")).unwrap();
        assert_eq!(logs.count(), 0, "logs are left");
        self.remove_classes();
        self.node.finish().await;
    }

    /// Removes the cgroups that a node keeps between pods.
    fn remove_classes(&self) {
        let id = self.node.id();
        if self.manager.options().cgroups.driver
            == orlop_kuberuntime::manager::CgroupDriver::Systemd
        {
            for slice in [
                "-kubepods-burstable",
                "-kubepods-besteffort",
                "-kubepods",
                "",
            ] {
                let stop = std::process::Command::new("systemctl")
                    .args(["stop", &format!("{id}{slice}.slice")])
                    .status();
                assert!(stop.is_ok_and(|it| it.success()), "{id}{slice}");
            }
        }
        let groups = leaks::cgroups(self.node.id());
        for group in groups.into_iter().rev() {
            let class = ["kubepods", "burstable", "besteffort"];
            if group
                .file_name()
                .is_some_and(|name| class.iter().any(|c| name == *c))
            {
                let _ = std::fs::remove_dir(group);
            }
        }
    }
}

fn options(node: &Node) -> Options {
    let endpoint = format!("unix://{}", node.socket().display());
    let mut options = Options::new(endpoint.parse().unwrap(), node.scratch().subdir("kubelet"));
    options.pod_logs_dir = node.scratch().subdir("podlogs");
    options.container_logs_dir = Some(node.scratch().subdir("containerlogs"));
    options.cgroups.root = format!("/{}", node.id());
    // A runtime that tells is followed in any case.
    if !node.is_peer() && CgroupDriver::of_tests() == CgroupDriver::Systemd {
        options.cgroups.driver = orlop_kuberuntime::manager::CgroupDriver::Systemd;
    }
    "node".clone_into(&mut options.node.name);
    options.node.addresses = vec!["127.0.0.1".parse().unwrap()];
    options
}

fn collect(manager: &Manager) -> Arc<Mutex<Vec<Event>>> {
    let events = Arc::new(Mutex::new(Vec::new()));
    let mut watch = manager.watch();
    let into = events.clone();
    tokio::spawn(async move {
        while let Some(change) = watch.next().await {
            if let Ok(Change::Event(event)) = change {
                into.lock().unwrap().push((*event).clone());
            }
        }
    });
    events
}

/// The status of a container in a view.
pub fn container<'a>(view: &'a PodView, name: &str) -> &'a Value {
    [
        "containerStatuses",
        "initContainerStatuses",
        "ephemeralContainerStatuses",
    ]
    .iter()
    .filter_map(|list| view.status[list].as_array())
    .flatten()
    .find(|status| status["name"] == name)
    .unwrap_or(&Value::Null)
}

/// Asserts that a pod has failed, and how that is summed up.
#[track_caller]
pub fn assert_failed(view: &PodView, summary: &str) {
    let seen = (view.phase, view.summary.as_str());
    assert_eq!(seen, (PodPhase::Failed, summary));
}

/// Asserts that a pod was failed for a reason.
#[track_caller]
pub fn assert_failed_for(view: &PodView, reason: &str) {
    let seen = (view.phase, view.reason.as_str());
    assert_eq!(seen, (PodPhase::Failed, reason));
}
