//! What is hidden until it is asked for, and by whom.

use serde_json::json;

use crate::world::{visit, world};

#[tokio::test]
async fn values_of_the_environment_are_for_who_started_the_server_to_show_them() {
    let world = world!();
    let last = "kubectl.kubernetes.io/last-applied-configuration";
    let spec = world
        .node
        .pod("one")
        .annotation(last, "{\"password\":\"hunter2\"}");
    let spec = spec.annotation("plain", "<i>");
    let container = world.script("sleep 1000").env("PASSWORD", "hunter2 <b>");
    let (pod_id, id) = world.run(&spec, &container).await;
    let path = format!("/api/pod/{pod_id}/environment?container={id}");

    let page = world.page(&[]);
    let browser = visit(&page).await;
    let mut events = browser.events("/api/live").await;
    let pods = events.next_of("pods").await;
    let told = browser.document(&format!("/api/pod/{pod_id}")).await;
    let settings = browser.document("/api/settings").await;
    for answer in [&pods, &told, &settings] {
        assert!(!answer.to_string().contains("hunter2"), "{answer}");
    }
    assert_eq!(told["annotations"]["plain"], "<i>");
    let names = told["containers"][0]["environment"].as_array().unwrap();
    assert!(names.contains(&json!("PASSWORD")), "{told}");
    let (status, refused) = browser.get(&path).await;
    assert_eq!(status, 403, "{refused}");
    drop((events, page));

    let page = world.page(&["--show-environment"]);
    let browser = visit(&page).await;
    let told = browser.document(&format!("/api/pod/{pod_id}")).await;
    assert!(
        !told.to_string().contains("hunter2"),
        "it was not asked for: {told}"
    );
    let told = browser.document(&path).await;
    let variable = json!({ "name": "PASSWORD", "value": "hunter2 <b>" });
    assert!(
        told["variables"].as_array().unwrap().contains(&variable),
        "{told}"
    );
    let (other, _) = world
        .run(&world.node.pod("two"), &world.script("sleep 1000"))
        .await;
    let not_its = format!("/api/pod/{other}/environment?container={id}");
    assert_eq!(browser.get(&not_its).await.0, 404);
    drop(page);
    world.finish().await;
}
