//! Many lazy images on a node where nobody reads: memory, and who wakes up.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use orlop_testkit::process::{memory, processes};
use orlop_testkit::{ContainerSpec, Cri, FaultProxy, Node, NodeBuilder};

/// How long it is looked who wakes up.
const REST: Duration = Duration::from_secs(5);

/// What the processes of a node take, in kB, and how often they woke up.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Crowd {
    pub(crate) daemon_kb: u64,
    pub(crate) daemon_wakes: u64,
    /// Of what serves lazy layers, if anything does.
    pub(crate) server: Option<(u64, u64)>,
}

/// Runs a container of each image, which reads some files and then sleeps. After a while it is looked.
pub(crate) async fn measure(
    node: NodeBuilder,
    proxy: &FaultProxy,
    names: &[String],
    settle: Duration,
) -> Crowd {
    let node = node.start().await;
    let cri = node.cri().await;
    let pod = node.pod("crowd");
    let id = cri.run_pod(&pod).await.expect("run a pod");
    for (number, name) in names.iter().enumerate() {
        let reference = proxy.reference(name);
        cri.pull_for(&reference, &pod).await.expect("pull");
        let spec = ContainerSpec::new(&format!("c{number}"), &reference);
        let spec = spec.shell("xargs cat </first >/dev/null && echo read; exec sleep 86400");
        cri.run(&id, &pod, &spec).await.expect("run a container");
        let log = pod.logs().join(format!("c{number}.log"));
        wait_for(&log).await;
    }
    tokio::time::sleep(settle).await;
    let found = crowd(&node).await;
    end(&cri).await;
    found
}

async fn wait_for(log: &Path) {
    let end = std::time::Instant::now() + Duration::from_mins(1);
    while !std::fs::read_to_string(log).is_ok_and(|text| text.contains("read")) {
        assert!(
            std::time::Instant::now() < end,
            "a container has not read its files"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn crowd(node: &Node) -> Crowd {
    let servers = server_of(node);
    assert!(
        servers.len() <= 1,
        "several servers of lazy layers: {servers:?}"
    );
    let server = servers.first().map(|pid| pid.unsigned_abs());
    let all: Vec<u32> = [node.pid()].into_iter().chain(server).collect();
    let before: Vec<_> = all.iter().map(|pid| wakes(*pid)).collect();
    tokio::time::sleep(REST).await;
    let since = |(pid, before): (&u32, HashMap<String, u64>)| {
        let of = |(thread, now): (String, u64)| now - before.get(&thread).unwrap_or(&0);
        wakes(*pid).into_iter().map(of).sum()
    };
    let woke: Vec<u64> = all.iter().zip(before).map(since).collect();
    Crowd {
        daemon_kb: memory(node.pid(), "VmRSS:"),
        daemon_wakes: woke[0],
        server: server.map(|pid| (memory(pid, "VmRSS:"), woke[1])),
    }
}

/// What serves the lazy layers of a node.
pub(crate) fn server_of(node: &Node) -> Vec<i32> {
    processes(&["orlop-lazy", node.id()])
}

/// How often each thread of a process went to sleep and woke up.
fn wakes(pid: u32) -> HashMap<String, u64> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("its threads");
    let counts = tasks.flatten().filter_map(|task| {
        let status = std::fs::read_to_string(task.path().join("status")).ok()?;
        let mut lines = status.lines();
        let line = lines.find(|line| line.starts_with("voluntary_ctxt_switches:"))?;
        let count = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
        Some((task.file_name().to_string_lossy().into_owned(), count))
    });
    counts.collect()
}

async fn end(cri: &Cri) {
    cri.remove_all_pods().await.expect("remove the pods");
}
