//! `/checkpoint`, by which an operator has a container of a kubelet written out.

use std::path::Path;

use orlop_testkit::machine::{can_run_pods, criu_works};
use orlop_testkit::{Node, skip_unless};
use serde_json::Value;

use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_container_is_written_out_below_the_agents_directory() {
    skip_unless!(criu_works());
    skip_unless!(can_run_pods());
    let world = World::on(Node::orlop()).await;
    world.write("a.yaml", &world.sleeper("kept", "hostNetwork: true", ""));
    let mut agent = world.agent(&[]);
    agent.ready("kept-n1").await;
    let (code, answer) = agent.ask("POST", "/checkpoint/default/kept-n1/main", "");
    assert_eq!(code, 200, "{answer}");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let archive = Path::new(answer["items"][0].as_str().unwrap());
    assert!(archive.starts_with(agent.root.join("checkpoints")));
    let name = archive.file_name().unwrap().to_str().unwrap();
    assert!(
        name.starts_with("checkpoint-kept-n1_default-main-"),
        "{name}"
    );
    assert!(archive.is_file());

    for (path, expected) in [
        ("/checkpoint/default/kept-n1/nobody", 404),
        ("/checkpoint/default/nobody/main", 404),
        ("/checkpoint/default/kept-n1", 400),
        ("/checkpoint/default/kept-n1/main?timeout=soon", 400),
    ] {
        let (code, answer) = agent.ask("POST", path, "");
        assert_eq!(code, expected, "{path}: {answer}");
    }
    agent.finish(&world).await;
    world.finish().await;
}
