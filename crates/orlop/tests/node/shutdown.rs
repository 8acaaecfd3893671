//! The end of the node: pods by priority, each within its group's time.

use rustix::process::Signal;

use crate::world::{SOON, World, world};

fn pod(world: &World, name: &str, priority: i32, grace: u32, end: &str) -> String {
    let out = world.node.scratch().subdir("ends");
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\nspec:\n  hostNetwork: true\n  \
         priority: {priority}\n  terminationGracePeriodSeconds: {grace}\n  containers:\n  - name: \
         main\n    image: {}\n    imagePullPolicy: Never\n    command: [sh, -c, \"trap '{end}' TERM; \
         echo {name} begins >> /ends/log; while :; do sleep 0.1; done\"]\n    volumeMounts:\n    - \
         {{name: ends, mountPath: /ends}}\n  volumes:\n  - name: ends\n    hostPath: {{path: {}}}\n",
        world.busybox,
        out.display()
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn the_less_important_end_first_and_nobody_has_more_than_its_group() {
    let world = world!();
    let config = world.node.scratch().path("kubelet.yaml");
    std::fs::write(
        &config,
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
         shutdownGracePeriodByPodPriority:\n- {priority: 1000, shutdownGracePeriodSeconds: 20}\n\
         - {priority: 0, shutdownGracePeriodSeconds: 3}\n",
    )
    .unwrap();
    let says = |name: &str| format!("sleep 1; echo {name} ends >> /ends/log; exit 0");
    world.write("high.yaml", &pod(&world, "high", 2000, 30, &says("high")));
    world.write("low.yaml", &pod(&world, "low", 5, 30, &says("low")));
    // It does not end by itself, and its own grace period is longer than its group's.
    world.write("deaf.yaml", &pod(&world, "deaf", 5, 9, ":"));
    let mut agent = world.agent(&["--at-end=stop", "--config", config.to_str().unwrap()]);
    for name in ["high-n1", "low-n1", "deaf-n1"] {
        agent.ready(name).await;
    }
    let begun = std::time::Instant::now();
    agent.process.signal(Signal::TERM);
    let ended = agent.process.wait(SOON).expect("the agent ends");
    let took = begun.elapsed();
    assert!(ended.success(), "{}", agent.process.log());
    assert!(
        took.as_secs() >= 3 && took.as_secs() < 25,
        "the deaf pod has its group's time and no more: {took:?}"
    );
    let log = world.node.scratch().path("ends/log");
    let log = std::fs::read_to_string(log).unwrap();
    let ends: Vec<&str> = log.lines().filter(|line| line.ends_with("ends")).collect();
    assert_eq!(ends, ["low ends", "high ends"]);
    for id in world.cri.containers().await.unwrap() {
        let status = world.cri.status(&id).await.unwrap();
        assert_eq!(status.state, 2, "CONTAINER_EXITED");
    }
    // They come back with the next agent.
    let mut agent = world.agent(&[]);
    for name in ["high-n1", "low-n1", "deaf-n1"] {
        agent.ready(name).await;
    }
    agent.finish(&world).await;
    world.finish().await;
}
