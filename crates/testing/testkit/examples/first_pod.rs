//! The first look at orlop (`make run`): a node on scratch directories runs the pod of
//! `examples/`, shows its log and its answer, and is gone again.
//!
//! No network is needed: the image is made of this machine's busybox and comes from a
//! registry on the loopback interface.
#![allow(
    clippy::disallowed_methods,
    reason = "tests read what they wrote themselves"
)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use http_body_util::Full;
use hyper::Request;
use orlop_cri_api::json;
use orlop_cri_api::v1::{
    ContainerConfig, CreateContainerRequest, PodSandboxConfig, RunPodSandboxRequest,
};
use orlop_testkit::{Cri, ImageBuilder, Node, Registry, http, machine};

fn main() -> anyhow::Result<()> {
    if let Err(reason) = machine::can_run_pods() {
        bail!("this machine can't run the example: it {reason}");
    }
    let reactor = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    reactor.block_on(show())
}

async fn show() -> anyhow::Result<()> {
    let mut watch = Stopwatch(Instant::now());
    let node = Node::start().await;
    let cri = node.cri().await;
    let version = cri.version().await?;
    watch.tell(&format!(
        "{} {} is up",
        version.runtime_name, version.runtime_version
    ));

    let registry = Registry::start();
    let reference = registry
        .push(&ImageBuilder::busybox().build(), "busybox:latest")
        .await;
    watch.tell(&format!(
        "made an image from this machine's busybox: {reference}"
    ));
    cri.pull(&reference).await.context("pulling it")?;
    watch.tell("pulled it");

    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples");
    let pod = pod_config(&node, &examples.join("pod.json"))?;
    let container = container_config(&reference, &examples.join("container.json"))?;
    let pod_id = run_pod(&cri, &pod).await.context("running the pod")?;
    watch.tell(&format!("pod {} runs", &pod_id[..13]));
    let request = CreateContainerRequest {
        pod_sandbox_id: pod_id.clone(),
        config: Some(container),
        sandbox_config: Some(pod.clone()),
    };
    let created = cri.runtime().create_container(request).await?;
    let id = created.into_inner().container_id;
    cri.start(&id).await.context("starting the container")?;
    watch.tell(&format!("container {} runs", &id[..13]));

    let status = cri.pod_status(&pod_id).await?;
    let ip = status.network.context("the pod has no network")?.ip;
    let log = Path::new(&pod.log_directory).join("web.log");
    let answer = ask(format!("{ip}:8080").parse()?).await.with_context(|| {
        format!(
            "its log: {}",
            std::fs::read_to_string(&log).unwrap_or_default()
        )
    })?;
    watch.tell(&format!("http://{ip}:8080/ answers"));
    println!("{}", indented(&answer));

    let output = cri.exec(&id, &["ps"]).await?;
    watch.tell("what runs in the container");
    println!("{}", indented(&String::from_utf8_lossy(&output.stdout)));

    let log = std::fs::read_to_string(log)?;
    watch.tell("the container's log");
    println!("{}", indented(&log));

    drop(cri);
    node.finish().await;
    watch.tell("stopped; nothing is left behind");
    Ok(())
}

/// The pod of the file, put below the node's own names.
fn pod_config(node: &Node, file: &Path) -> anyhow::Result<PodSandboxConfig> {
    let mut config: PodSandboxConfig = read(file)?;
    let own = node.pod("first").config();
    config.log_directory = own.log_directory;
    let cgroup_parent = own
        .linux
        .map(|linux| linux.cgroup_parent)
        .unwrap_or_default();
    config.linux.get_or_insert_default().cgroup_parent = cgroup_parent;
    Ok(config)
}

/// The container of the file, on the image just made.
fn container_config(image: &str, file: &Path) -> anyhow::Result<ContainerConfig> {
    let mut config: ContainerConfig = read(file)?;
    image.clone_into(&mut config.image.get_or_insert_default().image);
    Ok(config)
}

fn read<T: prost::Name + Default>(file: &Path) -> anyhow::Result<T> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let value =
        serde_json::from_str(&text).with_context(|| format!("reading {}", file.display()))?;
    let mut unknown = Vec::new();
    let config =
        json::read(&value, &mut unknown).with_context(|| format!("reading {}", file.display()))?;
    if unknown.is_empty() {
        Ok(config)
    } else {
        bail!("{} has {unknown:?}", file.display())
    }
}

async fn run_pod(cri: &Cri, config: &PodSandboxConfig) -> Result<String, tonic::Status> {
    let request = RunPodSandboxRequest {
        config: Some(config.clone()),
        ..RunPodSandboxRequest::default()
    };
    Ok(cri
        .runtime()
        .run_pod_sandbox(request)
        .await?
        .into_inner()
        .pod_sandbox_id)
}

/// Asks the web server in the pod, which may need a moment to listen.
async fn ask(address: SocketAddr) -> anyhow::Result<String> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let request = Request::get("/").body(Full::default())?;
        match http::send(address, request).await {
            Ok(answer) => return Ok(String::from_utf8_lossy(&answer.body).into_owned()),
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

fn indented(text: &str) -> String {
    text.lines()
        .map(|line| format!("             {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Tells each step with the time since the one before.
struct Stopwatch(Instant);

impl Stopwatch {
    fn tell(&mut self, what: &str) {
        let took = self.0.elapsed();
        println!("{:>9.1} ms {what}", took.as_secs_f64() * 1000.0);
        self.0 = Instant::now();
    }
}
