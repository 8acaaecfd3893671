//! Hooks from a directory, which have no plugin.

use orlop_testkit::Node;

use crate::world::world;

#[tokio::test]
async fn hooks_from_a_directory_run_for_the_containers_they_are_meant_for() {
    let hooks = tempfile::tempdir().expect("a directory");
    let trace = hooks.path().join("ran");
    let definition = serde_json::json!({
        "version": "1.0.0",
        "hook": {
            "path": "/bin/sh",
            "args": ["sh", "-c", format!("cat >> {}", trace.display())],
        },
        "when": { "annotations": { "^example\\.com/traced$": "^yes$" } },
        "stages": ["createRuntime"],
    });
    let file = hooks.path().join("10-trace.json");
    std::fs::write(&file, definition.to_string()).expect("write a definition");
    let config = format!("[hooks]\ndirs = [{:?}]", hooks.path());
    let world = world!(Node::orlop().drop_in(&config));
    let spec = world.container("main").shell("true");
    assert_eq!(world.output("untraced", &spec).await.0, 0);
    assert!(!trace.exists());
    let traced = world.container("main").shell("true").with(|config| {
        let annotation = ("example.com/traced".to_owned(), "yes".to_owned());
        config.annotations.extend([annotation]);
    });
    let running = world.run_container("traced", &traced).await;
    world.cri.wait_exited(&running.id).await;
    let state = std::fs::read_to_string(&trace).expect("the hook ran");
    assert!(
        state.contains(&running.id),
        "it is told the container's state: {state}"
    );

    std::fs::write(&file, "{}").expect("break the definition");
    let pod = world.node.pod("unguarded");
    let pod_id = world.run_pod(&pod).await;
    let error = world.cri.create(&pod_id, &pod, &spec).await;
    let error = error.expect_err("what guards containers cannot be read");
    assert!(error.message().contains("10-trace.json"), "{error}");
    world.finish().await;
}
