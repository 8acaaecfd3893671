//! The kit itself, tried on the reference: what it says of a pod's life must be true there.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use orlop_testkit::cri::read_log;
use orlop_testkit::node::containerd_program;
use orlop_testkit::{ContainerSpec, ImageBuilder, Node, Registry, machine, skip_unless};

#[tokio::test]
async fn a_pod_lives_on_the_reference_and_leaves_nothing() {
    skip_unless!(machine::can_run_pods());
    skip_unless!(containerd_program().map(drop));
    let registry = Registry::start();
    let image = ImageBuilder::busybox().index().build();
    let reference = registry.push(&image, "busybox:1").await;

    let node = Node::containerd().start().await;
    let cri = node.cri().await;
    assert_eq!(cri.pull(&reference).await.expect("pull"), image.id());
    let pod = node.pod("life");
    let pod_id = cri.run_pod(&pod).await.expect("run a pod");
    let spec = ContainerSpec::new("main", &reference).shell("echo ahoy; id -u >&2; sleep 600");
    let id = cri.run(&pod_id, &pod, &spec).await;
    let id = id.expect("run a container");

    let output = cri.exec(&id, &["sh", "-c", "hostname; exit 7"]).await;
    let output = output.expect("exec");
    assert_eq!(output.exit_code, 7);
    assert!(
        !node.leaks().is_empty(),
        "a running container is not seen by the leak check"
    );
    cri.stop(&id, 0).await.expect("stop");
    assert_eq!(cri.wait_exited(&id).await.exit_code, 137);
    let log = read_log(&pod.logs().join("main.log"));
    let lines: Vec<_> = log
        .iter()
        .map(|line| (line.stream.as_str(), String::from_utf8_lossy(&line.content)))
        .collect();
    assert!(lines.contains(&("stdout", "ahoy".into())), "{lines:?}");
    assert!(lines.contains(&("stderr", "0".into())), "{lines:?}");
    node.finish().await;
}
