//! A page of a node, from its first event to what it is told of each thing.

use std::time::Duration;

use orlop_testkit::docker::{self, CriDockerd};
use orlop_testkit::node::{containerd_program, crio_program};
use orlop_testkit::{Node, NodeBuilder, machine, skip_unless};
use serde_json::{Value, json};

use crate::browser::{Events, pod};
use crate::world::{World, visit, world};

/// What is told first, in its order.
async fn opening(events: &mut Events) -> Value {
    let mut told = Vec::new();
    for kind in ["hello", "node", "pods", "history"] {
        let (its, data) = events.next().await;
        assert_eq!(its, kind, "{data}");
        told.push(data);
    }
    told.swap_remove(0)
}

#[tokio::test]
async fn a_page_is_told_of_pods_as_they_come_crash_and_go() {
    let world = world!();
    let page = world.page(&[]);
    let browser = visit(&page).await;
    let mut events = browser.events("/api/live").await;
    let hello = opening(&mut events).await;
    assert_eq!(hello["runtime"]["name"], "orlop");
    assert_eq!(hello["missing"], json!([]));
    let can = json!({
        "usage": true, "events": true, "traces": true, "pulls": true, "networks": true, "disk": true,
        "settings": true, "doctor": true, "manifests": false, "environment": false,
    });
    assert_eq!(hello["can"], can);
    let node = events
        .until("node", |node| node["findings"].is_array())
        .await;
    assert_eq!(node["conditions"][0]["ok"], true, "{node}");

    let spec = world.node.pod("one").own_network().label("app", "<b>&\"x");
    let spec = spec.label("pod-template-hash", "5d4f");
    let script = "while [ ! -e /end ]; do sleep 0.1; done; exit 7";
    let (pod_id, id) = world.run(&spec, &world.script(script)).await;
    let started = events
        .until("event", |event| {
            event["kind"] == "started" && event["container"] == json!(id)
        })
        .await;
    assert_eq!(
        (&started["pod"], &started["container"]),
        (&json!(pod_id), &json!(id))
    );
    assert_eq!(started["pod_name"], "one");
    let runs = |pods: &Value| {
        pod(pods, &pod_id).is_some_and(|pod| pod["containers"][0]["state"] == "running")
    };
    let pods = events.until("pods", runs).await;
    let told = pod(&pods, &pod_id).unwrap();
    assert_eq!(told["labels"]["app"], "<b>&\"x");
    assert_eq!(
        (&told["state"], &told["host_network"]),
        (&json!("ready"), &json!(false))
    );
    assert!(
        told["ips"][0].as_str().is_some_and(|ip| ip.contains('.')),
        "{told}"
    );
    let used = events
        .until("usage", |usage| usage["pods"][&pod_id][0].is_number())
        .await;
    assert!(used["pods"][&pod_id][1].as_f64().unwrap() > 0.0, "{used}");
    assert!(used["node"]["memory"].as_f64().unwrap() > 1e6 && used["node"]["cpu"].is_number());
    assert!(
        used["node"]["disk_capacity"].as_f64().unwrap() > 0.0,
        "{used}"
    );

    // Who comes later is told what was before.
    let mut second = browser.events("/api/live").await;
    second.next_of("hello").await;
    let history = second.next_of("history").await;
    assert!(!history["points"].as_array().unwrap().is_empty());
    drop(second);

    world.cri.exec(&id, &["touch", "/end"]).await.unwrap();
    let over =
        |pods: &Value| pod(pods, &pod_id).is_some_and(|pod| pod["containers"][0]["exit_code"] == 7);
    events.until("pods", over).await;
    world.cri.stop_pod(&pod_id).await.unwrap();
    world.cri.remove_pod(&pod_id).await.unwrap();
    events
        .until("pods", |pods| pod(pods, &pod_id).is_none())
        .await;
    drop(page);
    world.finish().await;
}

#[tokio::test]
async fn an_endpoint_that_is_killed_is_gone_and_there_again() {
    let mut world = world!();
    let spec = world.node.pod("one");
    let (pod_id, _) = world.run(&spec, &world.script("sleep 1000")).await;
    let page = world.page(&[]);
    let browser = visit(&page).await;
    let mut events = browser.events("/api/live").await;
    opening(&mut events).await;
    world.node.kill9();
    let gone = events.next_of("gone").await;
    assert!(
        gone["why"].as_str().is_some_and(|why| !why.is_empty()),
        "{gone}"
    );
    assert_eq!(browser.get("/api/images").await.0, 502);
    world.node.start_again().await;
    events.next_of("hello").await;
    let pods = events.next_of("pods").await;
    assert!(pod(&pods, &pod_id).is_some(), "{pods}");
    events.next_of("usage").await;
    drop(page);
    world.cri = world.node.cri().await;
    world.finish().await;
}

#[tokio::test]
async fn all_that_can_be_asked_for_is_answered() {
    let world = world!();
    let spec = world.node.pod("one").own_network();
    let container = world.script("sleep 1000").memory(64 << 20);
    let (pod_id, id) = world.run(&spec, &container).await;
    let page = world.page(&[]);
    let browser = visit(&page).await;
    let told = browser.document(&format!("/api/pod/{pod_id}")).await;
    assert_eq!(told["pod"]["id"], json!(pod_id));
    let container = &told["containers"][0];
    assert_eq!(
        (&container["id"], &container["name"]),
        (&json!(id), &json!("main"))
    );
    assert_eq!(container["resources"]["memory_limit"], 64 << 20);
    assert!(
        container["pid"].as_u64().is_some_and(|pid| pid > 1),
        "{container}"
    );
    assert_eq!(container["command"], json!(["/bin/sh", "-c", "sleep 1000"]));
    assert!(
        told["netns"].is_string() && told["cgroup"].is_string(),
        "{told}"
    );
    assert_eq!(browser.get("/api/pod/0123").await.0, 404);

    let traces = browser
        .document(&format!("/api/traces?pod={pod_id}&limit=1"))
        .await;
    assert_eq!(traces["traces"][0]["id"], json!(pod_id));
    let calls = traces["traces"][0]["calls"].as_array().unwrap();
    assert!(
        calls.iter().any(|call| call["name"] == "StartContainer"),
        "{traces}"
    );

    let images = browser.document("/api/images").await;
    let busybox = &images["images"][0];
    assert_eq!(busybox["used_by"], json!([pod_id]), "{images}");
    assert!(
        busybox["layers"][0]["digest"]
            .as_str()
            .unwrap()
            .starts_with("sha256:")
    );
    assert!(
        busybox["layers"][0]["size"].as_u64().unwrap() > 0,
        "{images}"
    );
    assert!(images["filesystems"][0]["capacity"].as_u64().unwrap() > 0);
    assert_eq!(images["garbage"]["images"], json!([]));

    let networks = browser.document("/api/networks").await;
    let network = &networks["networks"][0];
    let given = network["given"].as_array().unwrap();
    assert_eq!(given[0]["pod"], json!(pod_id), "{networks}");
    assert!(
        network["subnets"][0]
            .as_str()
            .is_some_and(|it| it.contains('/')),
        "{networks}"
    );

    let settings = browser.document("/api/settings").await;
    assert_eq!(settings["text"], Value::Null, "a client does not know it");
    assert!(settings["status"]["root"].is_string(), "{settings}");
    drop(page);
    world.finish().await;
}

#[tokio::test]
async fn logs_are_followed_to_their_end_and_their_markup_is_text() {
    let world = world!();
    let script = r#"echo '<script>alert("1")</script>'; printf 'a\001\033[2J\377\n' >&2
        while [ ! -e /end ]; do sleep 0.1; done; echo last"#;
    let (_, id) = world
        .run(&world.node.pod("one"), &world.script(script))
        .await;
    let (_, other) = world
        .run(
            &world.node.pod("two"),
            &world.script("echo two; sleep 1000"),
        )
        .await;
    let page = world.page(&[]);
    let browser = visit(&page).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let path = format!("/api/logs?container={id}&container={other}&container=none&tail=10");
    let mut events = browser.events(&path).await;
    let mut texts = Vec::new();
    loop {
        let (kind, data) = events.next().await;
        match kind.as_str() {
            "lines" => {
                for line in data["lines"].as_array().unwrap() {
                    assert!(line[0].as_f64().unwrap() > 1e12);
                    texts.push((
                        data["container"] == json!(id),
                        line[1].as_u64(),
                        line[2].clone(),
                    ));
                }
            }
            "ended" => assert_eq!(data["container"], "none"),
            "caught" => break,
            _ => panic!("{kind}"),
        }
    }
    for line in [
        (true, Some(1), json!("<script>alert(\"1\")</script>")),
        (true, Some(2), json!("a\u{1}\u{1b}[2J\u{fffd}")),
        (false, Some(1), json!("two")),
    ] {
        assert!(texts.contains(&line), "{line:?} is not in {texts:?}");
    }
    world.cri.exec(&id, &["touch", "/end"]).await.unwrap();
    let last = events.next_of("lines").await;
    assert_eq!(last["lines"][0][2], "last");
    assert_eq!(events.next_of("ended").await["container"], json!(id));
    drop(page);
    world.finish().await;
}

#[tokio::test]
async fn containerd_has_a_page_and_what_it_cannot_tell_is_said() {
    skip_unless!(machine::can_run_pods());
    skip_unless!(containerd_program().map(drop));
    peer_has_a_page(Node::containerd(), "containerd").await;
}

#[tokio::test]
async fn crio_has_a_page_and_what_it_cannot_tell_is_said() {
    skip_unless!(machine::can_run_pods());
    skip_unless!(crio_program().map(drop));
    peer_has_a_page(Node::crio(), "cri-o").await;
}

#[tokio::test]
async fn cri_dockerd_has_a_page_and_what_it_cannot_tell_is_said() {
    skip_unless!(machine::can_run_pods());
    skip_unless!(docker::can_run());
    skip_unless!(CriDockerd::program().map(drop));
    peer_has_a_page(Node::cri_dockerd(), "docker").await;
}

async fn peer_has_a_page(node: NodeBuilder, name: &str) {
    let world = World::on(node).await;
    let page = world.page(&[]);
    let browser = visit(&page).await;
    let mut events = browser.events("/api/live").await;
    let hello = opening(&mut events).await;
    assert_eq!(hello["runtime"]["name"], name);
    let missing = hello["missing"].as_array().unwrap();
    for what in ["traces", "pulls", "networks", "doctor"] {
        assert!(missing.iter().any(|one| one["what"] == what), "{hello}");
        assert_eq!(hello["can"][what], false);
    }
    let spec = world.node.pod("one").own_network();
    let container = world
        .script("echo words; sleep 1000")
        .env("PASSWORD", "hunter2");
    let (pod_id, id) = world.run(&spec, &container).await;
    let runs = |pods: &Value| {
        pod(pods, &pod_id).is_some_and(|pod| pod["containers"][0]["state"] == "running")
    };
    events.until("pods", runs).await;
    let used = events
        .until("usage", |usage| usage["pods"][&pod_id][0].is_number())
        .await;
    assert!(used["pods"][&pod_id][1].as_f64().unwrap() > 0.0, "{used}");
    let mut logs = browser.events(&format!("/api/logs?container={id}")).await;
    assert_eq!(logs.next_of("lines").await["lines"][0][2], "words");
    let told = browser.document(&format!("/api/pod/{pod_id}")).await;
    assert!(!told.to_string().contains("hunter2"), "{told}");
    // cri-dockerd tells no more than the CRI asks for.
    let tells = name != "docker";
    let names = told["containers"][0]["environment"].as_array();
    let is_named = names.is_some_and(|names| names.contains(&json!("PASSWORD")));
    assert_eq!(is_named, tells, "{told}");
    let namespace = told["netns"].as_str();
    assert_eq!(
        namespace.is_some_and(|path| path.starts_with('/')),
        tells,
        "{told}"
    );
    assert!(told["containers"][0]["pid"].as_u64() > Some(1), "{told}");
    let (_, ended) = world
        .run(
            &world.node.pod("two").own_network(),
            &world.script("exit 7"),
        )
        .await;
    world.cri.wait_exited(&ended).await;
    let pods = events
        .until("pods", |pods| pods.to_string().contains("\"exit_code\":7"))
        .await;
    let its = pods["pods"].as_array().unwrap();
    let its = its.iter().find(|pod| pod["name"] == "two").unwrap();
    let of_ended = browser
        .document(&format!("/api/pod/{}", its["id"].as_str().unwrap()))
        .await;
    assert_eq!(of_ended["containers"][0]["pid"], Value::Null, "{of_ended}");
    let images = browser.document("/api/images").await;
    let used_by = |image: &Value| {
        image["used_by"]
            .as_array()
            .unwrap()
            .contains(&json!(pod_id))
    };
    assert!(
        images["images"].as_array().unwrap().iter().any(used_by),
        "{images}"
    );
    assert_eq!(images["garbage"], Value::Null);
    assert_eq!(browser.get("/api/networks").await.0, 501);
    assert_eq!(browser.get("/api/traces").await.0, 501);
    let settings = browser.document("/api/settings").await;
    assert!(
        !settings["status"].as_object().unwrap().is_empty(),
        "{settings}"
    );
    let text = settings["text"].as_str().unwrap();
    let told = match name {
        "containerd" => "netnsMountsUnderStateDir = true",
        _ => "sandboxImage = ",
    };
    assert!(text.contains(told), "{text}");
    if name == "cri-o" {
        assert!(text.contains("\n[crio.Runtimes.test]\n"), "{text}");
    }
    drop((events, logs, page));
    world.finish().await;
}
