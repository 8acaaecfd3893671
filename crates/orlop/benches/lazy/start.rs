//! From RunPodSandbox to the first answer of a container, and until it has read all that it reads.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, StatusCode};
use orlop_testkit::proxy::Fetched;
use orlop_testkit::{ContainerSpec, Cri, FaultProxy, Node, NodeBuilder, PodSpec, http, process};

use crate::images;

/// No pull takes longer.
const LONGEST: Duration = Duration::from_mins(5);
/// How often it is asked whether a container answers.
const POLL: Duration = Duration::from_millis(5);

/// When what had happened, from RunPodSandbox on, and what had been fetched by then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start {
    pub(crate) sandbox: Duration,
    pub(crate) pulled: Duration,
    pub(crate) started: Duration,
    pub(crate) first: Duration,
    pub(crate) first_bytes: u64,
    pub(crate) all: Duration,
    pub(crate) all_bytes: u64,
    pub(crate) requests: usize,
}

impl Start {
    /// With the other's time until all is read, where that is sooner.
    pub(crate) fn or_sooner(self, other: Self) -> Self {
        Self {
            all: self.all.min(other.all),
            ..self
        }
    }
}

/// A node with a container that has read all that it reads.
pub(crate) struct Started {
    pub(crate) node: Node,
    pub(crate) cri: Cri,
    pub(crate) took: Start,
    /// The container's process.
    pub(crate) pid: i32,
}

impl Started {
    /// Takes all away again.
    pub(crate) async fn end(self) {
        self.cri.remove_all_pods().await.expect("remove the pods");
    }
}

/// A node whose lazy layers are lazy, with more of its settings.
pub(crate) fn lazily(more: &str) -> NodeBuilder {
    Node::orlop().drop_in(&format!("[images]\nlazy = \"auto\"\n{more}"))
}

/// The same that has images whole.
pub(crate) fn whole() -> NodeBuilder {
    Node::orlop().drop_in("[images]\nlazy = \"never\"\n")
}

/// The reference with stargz-snapshotter.
pub(crate) fn stargz(server: &Path) -> NodeBuilder {
    Node::containerd().stargz(server)
}

/// Has a new node run a container of the image.
pub(crate) async fn start(node: NodeBuilder, proxy: &FaultProxy, name: &str) -> Started {
    let node = node.start().await;
    let cri = Cri::connect_for(&node.socket(), LONGEST)
        .await
        .expect("connect");
    // What only the first pod of a node waits for is not the image's doing.
    let pod = node.pod("before");
    let before = cri.run_pod(&pod).await.expect("run a pod");
    cri.stop_pod(&before).await.expect("stop a pod");
    cri.remove_pod(&before).await.expect("remove a pod");
    let port = free_port();
    let pod = node.pod("measured");
    let (took, pid) = measure(&cri, &pod, proxy, name, port).await;
    Started {
        node,
        cri,
        took,
        pid,
    }
}

async fn measure(
    cri: &Cri,
    pod: &PodSpec,
    proxy: &FaultProxy,
    name: &str,
    port: u16,
) -> (Start, i32) {
    let reference = proxy.reference(name);
    let spec = ContainerSpec::new("main", &reference).shell(&images::command(port));
    proxy.forget();
    let begin = Instant::now();
    let id = cri.run_pod(pod).await.expect("run a pod");
    let sandbox = begin.elapsed();
    cri.pull_for(&reference, pod).await.expect("pull");
    let pulled = begin.elapsed();
    let container = cri.create(&id, pod, &spec).await;
    let container = container.expect("create a container");
    cri.start(&container).await.expect("start a container");
    let started = begin.elapsed();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    answer(address, "/first").await;
    let (first, first_bytes) = (begin.elapsed(), sent(proxy));
    answer(address, "/all").await;
    let (all, all_bytes) = (begin.elapsed(), sent(proxy));
    let requests = proxy.fetched().len();
    // As it was started, without the shell before it.
    let pids = process::processes(&[&format!("httpd -f -h /www -p 127.0.0.1:{port}")]);
    let is_server = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.starts_with(b"httpd")
    };
    let pid = pids
        .into_iter()
        .find(is_server)
        .expect("the container's process");
    let start = Start {
        sandbox,
        pulled,
        started,
        first,
        first_bytes,
        all,
        all_bytes,
        requests,
    };
    (start, pid)
}

/// Waits until it is there.
async fn answer(address: SocketAddr, path: &str) {
    let end = Instant::now() + LONGEST;
    loop {
        let request = Request::get(path).body(Full::<Bytes>::default());
        let answer = http::send(address, request.expect("a request")).await;
        if answer.is_ok_and(|answer| answer.status == StatusCode::OK) {
            return;
        }
        assert!(Instant::now() < end, "the container does not serve {path}");
        tokio::time::sleep(POLL).await;
    }
}

fn sent(proxy: &FaultProxy) -> u64 {
    proxy.fetched().iter().map(Fetched::sent).sum()
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").port()
}
