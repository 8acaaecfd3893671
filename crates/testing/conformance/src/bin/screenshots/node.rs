//! A node with pods that are worth a picture.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use orlop_testkit::browser::Picture;
use orlop_testkit::node::WebServer;
use orlop_testkit::{
    Browser, BrowserOptions, ContainerSpec, Cri, ImageBuilder, Layer, Node, PodSpec, Registry,
    machine,
};

/// Namespace, name, the scripts of its containers.
type Pod = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

const BUSY: &str = "while :; do n=0; while [ $n -lt 20000 ]; do n=$((n+1)); done; sleep 0.3; done";
const CALM: &str = "while :; do head -c 3000000 /dev/zero | md5sum > /dev/null; sleep 0.7; done";
const IDLE: &str = "exec sleep 600";
const TALKS: &str = r#"n=0; while [ $n -lt 400 ]; do n=$((n+1))
echo "{\"level\":\"info\",\"msg\":\"order $n is paid\",\"took_ms\":$((n % 37)),\"shop\":\"north\"}"
[ $((n % 9)) != 0 ] || echo "{\"level\":\"warn\",\"msg\":\"stock is low\",\"article\":$n}"
[ $((n % 23)) != 0 ] || echo "{\"level\":\"error\",\"msg\":\"payment of order $n was refused\",\"code\":402}" >&2
done; sleep 0.1; echo '{"level":"error","msg":"the queue is full","orders":400}' >&2; exec sleep 600"#;

const PODS: &[Pod] = &[
    (
        "shop",
        "web-7d9f8c6b5c-x2lqv",
        &[("server", BUSY), ("proxy", CALM)],
    ),
    (
        "shop",
        "web-7d9f8c6b5c-k8wzt",
        &[("server", CALM), ("proxy", IDLE)],
    ),
    ("shop", "orders-0", &[("orders", TALKS)]),
    ("shop", "db-0", &[("db", CALM)]),
    ("shop", "import-28401", &[("import", "sleep 1; exit 3")]),
    (
        "kube-system",
        "dns-5c8f7d-vv2hd",
        &[("dns", IDLE), ("metrics", IDLE)],
    ),
    ("kube-system", "proxy-8xk2p", &[("proxy", CALM)]),
    (
        "monitoring",
        "metrics-0",
        &[("metrics", BUSY), ("reloader", IDLE)],
    ),
];

/// How long it runs before the first picture, so that plots have something to show.
const BEFORE: Duration = Duration::from_mins(1);

/// Takes the pictures of a node that is made for them, and of nothing else on this machine.
pub(crate) async fn with_pods(list: &str, into: &Path) -> anyhow::Result<()> {
    machine::can_run_pods()
        .map_err(|reason| anyhow!("this machine can't run pods: it {reason}"))?;
    let node = Node::start().await;
    let cri = node.cri().await;
    let registry = Registry::start();
    let mut images = Vec::new();
    for (at, name) in ["shop/web:4.2", "shop/orders:1.9", "library/busybox:1.36"]
        .iter()
        .enumerate()
    {
        // A layer that all have, and one of each one's own.
        let own = Layer::new().noise("srv/data", (at + 1) << 20);
        let image = ImageBuilder::busybox().layer(own).build();
        let reference = registry.push(&image, name).await;
        cri.pull(&reference).await.context("pulling")?;
        images.push(reference);
    }
    let mut ids = Vec::new();
    for (at, pod) in PODS.iter().enumerate() {
        ids.push(Box::pin(run(&node, &cri, pod, &images[at % images.len()])).await?);
    }
    let list = list.replace("WEB", &ids[0].0).replace("LOG", &ids[2].1);
    let pictures = Picture::list(&list)?;

    let server = WebServer::start(&node.socket(), &[]);
    // What was used is kept while a page is open.
    let watcher = Browser::start(BrowserOptions::default()).await;
    watcher.open(&server.address).await;
    tokio::time::sleep(BEFORE).await;
    let taken = super::take(&pictures, &server.address, into).await;
    drop((watcher, server));
    cri.remove_all_pods().await?;
    remove_cgroups_of_pods(&node);
    drop(cri);
    node.finish().await;
    taken
}

/// Removes the cgroups that [`run`] named as parents: a kubelet removes those of its pods itself.
fn remove_cgroups_of_pods(node: &Node) {
    for cgroup in orlop_testkit::leaks::cgroups(node.id()).iter().rev() {
        let name = cgroup.file_name().and_then(|name| name.to_str());
        if name.is_some_and(|name| name.starts_with("pod-")) {
            // If it fails, `Node::finish` reports the cgroup.
            let _ = std::fs::remove_dir(cgroup);
        }
    }
}

/// Runs a pod; gives its id, and that of its first container.
async fn run(node: &Node, cri: &Cri, pod: &Pod, image: &str) -> anyhow::Result<(String, String)> {
    let (namespace, name, containers) = *pod;
    let spec: PodSpec = node.pod(name).own_network().with(|config| {
        let metadata = config.metadata.get_or_insert_default();
        namespace.clone_into(&mut metadata.namespace);
        name.clone_into(&mut metadata.name);
        // As a kubelet has it: each has a group of its own, which is what is measured.
        let linux = config.linux.get_or_insert_default();
        linux.cgroup_parent = format!("{}/pod-{name}", linux.cgroup_parent);
    });
    let pod_id = cri.run_pod(&spec).await?;
    let mut first = None;
    for (name, script) in containers {
        let container = ContainerSpec::new(name, image).shell(script);
        let id = cri.run(&pod_id, &spec, &container).await?;
        first.get_or_insert(id);
    }
    Ok((pod_id, first.unwrap_or_default()))
}
