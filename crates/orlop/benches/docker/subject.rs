//! Who is measured: a CRI server on the engine, or the engine by itself.

use std::path::Path;
use std::time::{Duration, Instant};

use orlop_testkit::docker::{CriDockerd, Shared};
use orlop_testkit::node::Ground;
use orlop_testkit::{ContainerSpec, Cri, DockerEngine, Node, PodSpec};

use crate::plain::Plain;
use crate::report::POD_UP;
use crate::{BUSYBOX, PAUSE};

/// One who is measured.
pub(crate) enum Subject {
    Orlop(Box<Node>, Cri),
    Plain(Plain),
    CriDockerd(CriDockerd, Ground, Cri),
}

type Times = Vec<(&'static str, Duration)>;

impl Subject {
    /// Our daemon.
    pub(crate) async fn orlop(engine: &DockerEngine) -> Self {
        let socket = engine.socket();
        let config = format!(
            "backend = \"docker\"\n[docker]\nendpoint = \"{}\"\nroot = \"{}\"\n",
            socket.display(),
            socket.with_file_name("shim").display()
        );
        let node = Node::orlop().config(&config).start().await;
        let cri = node.cri().await;
        let subject = Self::Orlop(Box::new(node), cri);
        // It loads the pause image, which the others use, too.
        subject.cycle(0).await;
        subject
    }

    /// The engine's own API.
    pub(crate) fn plain(engine: &DockerEngine) -> Self {
        Self::Plain(Plain::new(engine.socket()))
    }

    /// A server with cri-dockerd's flags.
    pub(crate) async fn cri_dockerd(engine: &DockerEngine, program: &Path) -> Self {
        let ground = Ground::new();
        let shared = Shared {
            cni_conf: &ground.subdir("cni"),
            cni_cache: &ground.subdir("cni-cache"),
            root: &ground.subdir("their-root"),
        };
        let server = CriDockerd::start(program, engine, PAUSE, shared, ground.run());
        let cri = server.cri().await;
        Self::CriDockerd(server, ground, cri)
    }

    /// Its name in the report.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Orlop(..) => "orlop",
            Self::Plain(..) => "plain API",
            Self::CriDockerd(..) => "cri-dockerd",
        }
    }

    /// A pod's whole life, and what its steps took.
    pub(crate) async fn cycle(&self, round: usize) -> Times {
        let name = format!("round-{round}");
        match self {
            Self::Plain(plain) => plain.cycle(&name).await,
            Self::Orlop(node, cri) => over_cri(cri, &node.pod(&name)).await,
            Self::CriDockerd(_, ground, cri) => {
                let logs = ground.subdir(&format!("logs/{name}"));
                let parent = format!("/{}", ground.id());
                over_cri(cri, &PodSpec::new(&name, ground.id(), parent, logs)).await
            }
        }
    }

    /// Its memory in KiB, if it is a process.
    pub(crate) fn resident(&self) -> Option<u64> {
        let pid = match self {
            Self::Orlop(node, _) => node.pid(),
            Self::CriDockerd(server, ..) => server.pid(),
            Self::Plain(_) => return None,
        };
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
        line.split_whitespace().nth(1)?.parse().ok()
    }

    /// Ends it.
    pub(crate) async fn finish(self) {
        if let Self::Orlop(node, cri) = self {
            drop(cri);
            node.finish().await;
        }
    }
}

async fn over_cri(cri: &Cri, pod: &PodSpec) -> Times {
    let pod = pod.clone().own_network();
    let spec = ContainerSpec::new("main", BUSYBOX).command(&["sleep", "600"]);
    let mut times = Vec::new();
    let start = Instant::now();
    let mut last = start;
    let mut lap = |step| {
        times.push((step, last.elapsed()));
        last = Instant::now();
    };
    let pod_id = cri.run_pod(&pod).await.expect("RunPodSandbox");
    lap("RunPodSandbox");
    let id = cri.create(&pod_id, &pod, &spec).await;
    let id = id.expect("CreateContainer");
    lap("CreateContainer");
    cri.start(&id).await.expect("StartContainer");
    lap("StartContainer");
    let up = start.elapsed();
    cri.exec(&id, &["true"]).await.expect("ExecSync");
    lap("ExecSync");
    cri.stop(&id, 0).await.expect("StopContainer");
    lap("StopContainer");
    cri.remove(&id).await.expect("RemoveContainer");
    lap("RemoveContainer");
    cri.stop_pod(&pod_id).await.expect("StopPodSandbox");
    lap("StopPodSandbox");
    cri.remove_pod(&pod_id).await.expect("RemovePodSandbox");
    lap("RemovePodSandbox");
    times.push((POD_UP, up));
    times
}
