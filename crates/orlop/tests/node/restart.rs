//! Agents that end, are killed, and come back.

use rustix::process::Signal;

use crate::world::{SOON, container_ids, world};

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_killed_or_ends_disturbs_no_pod() {
    let world = world!();
    world.write("a.yaml", &world.sleeper("a", "hostNetwork: true", ""));
    let mut agent = world.agent(&[]);
    let before = agent.ready("a-n1").await;
    agent.process.kill();
    drop(agent);

    // Meanwhile the manifest has gone bad: its pod stays all the same.
    let mut agent = world.agent(&[]);
    let after = agent.ready("a-n1").await;
    assert_eq!(container_ids(&after), container_ids(&before));
    assert_eq!(after["status"]["startTime"], before["status"]["startTime"]);
    let restarts = &after["status"]["containerStatuses"][0]["restartCount"];
    assert_eq!(restarts, 0);
    agent.process.kill();
    drop(agent);
    world.write("a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a\n");

    let mut agent = world.agent(&[]);
    agent
        .remark(&["a.yaml", "keeps its last valid version"])
        .await;
    let after = agent.ready("a-n1").await;
    assert_eq!(container_ids(&after), container_ids(&before));
    agent.stop();
    assert_eq!(world.cri.containers().await.unwrap().len(), 1);

    // What is no longer named when an agent comes back is ended.
    world.remove("a.yaml");
    let mut agent = world.agent(&[]);
    agent.gone("a-n1").await;
    agent.finish(&world).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_may_stop_its_pods_at_its_end() {
    let world = world!();
    world.write("a.yaml", &world.sleeper("a", "hostNetwork: true", ""));
    let mut agent = world.agent(&["--at-end=stop"]);
    agent.ready("a-n1").await;
    agent.process.signal(Signal::TERM);
    let ended = agent.process.wait(SOON).expect("the agent ends");
    assert!(ended.success());
    for id in world.cri.containers().await.unwrap() {
        let status = world.cri.status(&id).await.unwrap();
        assert_eq!(status.state, 2, "CONTAINER_EXITED");
    }
    // It comes back with the next agent.
    let mut agent = world.agent(&[]);
    agent.ready("a-n1").await;
    agent.finish(&world).await;
    world.finish().await;
}
