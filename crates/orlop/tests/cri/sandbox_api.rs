//! containerd's Sandbox API on our socket, asked for by another daemon of ours: what one serves the other calls.

use orlop_cri_api::v1::PodSandboxState;
use orlop_testkit::{Node, NodeBuilder};
use tonic::Code;

use crate::processes::{count, kill, processes};
use crate::sandboxes;
use crate::world::{World, world};

const SHIM: &str = "containerd-shim-orlop-v1";

/// A node whose pods are made by that one.
fn remote(controller: &Node) -> NodeBuilder {
    let socket = controller.socket();
    Node::orlop().drop_in(&format!(
        "default_runtime = \"remote\"\n[runtimes.remote]\nkind = \"shim\"\nsandboxer = \"proxy\"\n\
         address = {socket:?}\n"
    ))
}

async fn assert_gone(world: World, controller: Node, pod_id: &str) {
    world.cri.remove_pod(pod_id).await.expect("remove the pod");
    assert_eq!(count(&[SHIM, pod_id], 0).await, 0, "shims");
    assert_eq!(count(&["orlop-keeper", pod_id], 0).await, 0, "keepers");
    let namespaces = controller.state().join("sandboxes");
    let namespaces = std::fs::read_dir(namespaces).expect("the directory of sandboxes");
    for namespace in namespaces.flatten() {
        let kept = std::fs::read_dir(namespace.path()).expect("a namespace");
        assert_eq!(kept.count(), 0, "sandboxes");
    }
    world.finish().await;
    controller.finish().await;
}

#[tokio::test]
async fn a_pod_is_made_by_another_daemon() {
    orlop_testkit::skip_unless!(orlop_testkit::machine::can_run_pods());
    let controller = Node::orlop().start().await;
    let world = world!(remote(&controller));
    let running = world.run_script("pod", "echo ahoy; sleep 1000").await;
    assert_eq!(count(&[SHIM, &running.pod_id], 1).await, 1);
    // The pod is the keeper's whom the shim has, and its tasks are that shim's.
    assert_eq!(world.printed(&running.id, &["echo", "in"]).await, "in");
    let refused = world.cri.exec(&running.id, &["no-such-command"]).await;
    let failed = refused.map_or_else(
        |status| status.message().to_owned(),
        |it| it.exit_code.to_string(),
    );
    assert!(!failed.is_empty() && failed != "0");
    let (code, said) = world
        .output("other", &world.container("main").shell("echo out; exit 7"))
        .await;
    assert_eq!((code, said.trim()), (7, "out"));
    assert_eq!(running.stdout().trim(), "ahoy");
    for pod in world.cri.pods().await.expect("pods") {
        if pod != running.pod_id {
            let done = world.cri.remove_pod(&pod).await;
            done.expect("remove the other pod");
        }
    }
    assert_gone(world, controller, &running.pod_id).await;
}

#[tokio::test]
async fn a_controller_of_ours_may_be_replaced_at_any_moment() {
    orlop_testkit::skip_unless!(orlop_testkit::machine::can_run_pods());
    let mut controller = Node::orlop().start().await;
    let world = world!(remote(&controller));
    let running = world.run_script("pod", "sleep 1000").await;
    controller.kill9();
    controller.start_again().await;
    let id = world.cri.run_pod(&world.node.pod("after")).await;
    let id = id.expect("another pod");
    world.cri.remove_pod(&id).await.expect("remove it");
    // The one from before it cannot hear of any more, but end.
    let done = world.cri.stop_pod(&running.pod_id).await;
    done.expect("stop the pod");
    assert_gone(world, controller, &running.pod_id).await;
}

#[tokio::test]
async fn a_sandbox_whose_shim_is_killed_is_told_and_leaves_nothing() {
    orlop_testkit::skip_unless!(orlop_testkit::machine::can_run_pods());
    let controller = Node::orlop().start().await;
    let world = world!(remote(&controller));
    let running = world.run_script("pod", "sleep 1000").await;
    kill(processes(&[SHIM, &running.pod_id])[0]);
    sandboxes::is_down_within_a_second(&world, &running.pod_id).await;
    let status = world.cri.pod_status(&running.pod_id).await.expect("status");
    assert_eq!(status.state, PodSandboxState::SandboxNotready as i32);
    let done = world.cri.stop_pod(&running.pod_id).await;
    done.expect("stop the pod");
    assert_gone(world, controller, &running.pod_id).await;
}

/// A message with these texts, by their numbers.
#[derive(Clone, PartialEq, prost::Message)]
struct Named {
    #[prost(string, tag = "1")]
    id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Described {
    #[prost(message, optional, tag = "1")]
    sandbox: Option<Named>,
}

#[tokio::test]
async fn what_cannot_be_a_sandbox_is_refused() {
    orlop_testkit::skip_unless!(orlop_testkit::machine::can_run_pods());
    let node = Node::orlop().start().await;
    let cri = node.cri().await;
    let named = |id: &str| Named { id: id.to_owned() };
    for (method, id, code) in [
        (
            "/containerd.services.sandbox.v1.Controller/Create",
            "../up",
            Code::InvalidArgument,
        ),
        (
            "/containerd.services.sandbox.v1.Controller/Create",
            "",
            Code::InvalidArgument,
        ),
        (
            "/containerd.services.sandbox.v1.Controller/Start",
            "none",
            Code::NotFound,
        ),
        (
            "/containerd.services.sandbox.v1.Controller/Wait",
            "none",
            Code::NotFound,
        ),
        (
            "/containerd.services.sandbox.v1.Controller/Status",
            "none",
            Code::NotFound,
        ),
        (
            "/containerd.services.sandbox.v1.Controller/Update",
            "none",
            Code::Unimplemented,
        ),
        (
            "/containerd.services.sandbox.v1.Store/Get",
            "none",
            Code::NotFound,
        ),
        (
            "/containerd.services.sandbox.v1.Store/Delete",
            "../../etc",
            Code::InvalidArgument,
        ),
    ] {
        let refused = cri.call::<Named, Named>(method, named(id)).await;
        let refused = refused.expect_err("no such sandbox");
        assert_eq!(refused.code(), code, "{method} {id}: {refused}");
    }
    // The end of what is not there is no failure.
    for method in ["Stop", "Shutdown"] {
        let path = match method {
            "Stop" => "/containerd.services.sandbox.v1.Controller/Stop",
            _ => "/containerd.services.sandbox.v1.Controller/Shutdown",
        };
        cri.call::<Named, Named>(path, named("none"))
            .await
            .expect(method);
    }
    let sandbox = Some(named("kept"));
    let create = "/containerd.services.sandbox.v1.Store/Create";
    let made: Described = cri.call(create, Described { sandbox }).await.expect("keep");
    assert_eq!(made.sandbox.expect("a sandbox").id, "kept");
    drop(cri);
    node.finish().await;
}
