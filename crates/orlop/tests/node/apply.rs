//! `orlop apply`, `orlop delete` and `orlop node status`.

use std::process::{Command, Output};

use orlop_testkit::assert_contains;
use orlop_testkit::node::binary;

use crate::world::{Agent, container_ids, world};

fn orlop(agent: &Agent, args: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.args(args).arg("--socket").arg(&agent.socket);
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    let both = [output.stdout.as_slice(), &output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_applied_runs_survives_and_is_deleted() {
    let world = world!();
    let file = world.node.scratch().path("web.yaml");
    let file_name = file.to_str().unwrap();
    let pod = world.sleeper(
        "web",
        "hostNetwork: true",
        "resources: {limits: {memory: 64Mi}}",
    );
    std::fs::write(&file, &pod).unwrap();
    let mut agent = world.bare_agent(&[]);

    let done = orlop(&agent, &["apply", "-f", file_name]);
    assert_eq!(text(&done), "pod/web created\n");
    assert!(done.status.success());
    let first = agent.ready("web").await;
    assert_eq!(
        text(&orlop(&agent, &["apply", "-f", file_name])),
        "pod/web unchanged\n"
    );

    let shown = text(&orlop(&agent, &["node", "status"]));
    assert_contains!(shown, "web", "1/1", "Running");

    // Over a restart of the agent.
    agent.process.kill();
    drop(agent);
    let mut agent = world.bare_agent(&[]);
    let again = agent.ready("web").await;
    assert_eq!(container_ids(&again), container_ids(&first));

    std::fs::write(
        &file,
        "apiVersion: v1\nkind: Pod\nmetadata: {name: bad}\nspec: {}\n",
    )
    .unwrap();
    let refused = orlop(&agent, &["apply", "-f", file_name]);
    assert!(!refused.status.success());
    let words = text(&refused);
    assert_contains!(words, "web.yaml:4: error: Pod bad: spec.containers");

    assert_eq!(
        text(&orlop(&agent, &["delete", "pod", "web"])),
        "pod/web deleted\n"
    );
    agent.gone("web").await;
    let none = orlop(&agent, &["delete", "pod/web"]);
    assert!(!none.status.success() && text(&none).contains("pod default/web has not been applied"));
    agent.finish(&world).await;
    world.finish().await;
}

#[test]
fn without_an_agent_that_is_said() {
    let output = Command::new(binary())
        .args(["node", "status", "--socket", "/nonexistent/node.sock"])
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(
        text(&output).contains("start the node agent with `orlop node`"),
        "{}",
        text(&output)
    );
}
