//! What a node asks of its plugins, and forbids them.

use orlop_testkit::nri::Events;
use orlop_testkit::nri::v1alpha1::{ContainerAdjustment, Event, Hook, Hooks};
use orlop_testkit::{Manners, Node};

use super::{adjustment, plugin};
use crate::world::world;

#[tokio::test]
async fn a_node_can_require_plugins_and_forbid_adjustments() {
    let rules = "[nri]\nvalidator = true\nreject_oci_hooks = true\nrequired_plugins = [\"guard\"]\n\
                 tolerate_missing_annotation = \"example.com/alone\"";
    let world = world!(Node::orlop().drop_in(rules));
    let pod = world.node.pod("guarded");
    let pod_id = world.run_pod(&pod).await;
    let spec = world.container("main").shell("true");
    let error = world.cri.create(&pod_id, &pod, &spec).await;
    let error = error.expect_err("the plugin is missing");
    assert!(error.message().contains("guard"), "{error}");
    let alone = world
        .node
        .pod("alone")
        .annotation("example.com/alone", "true");
    let alone_id = world.run_pod(&alone).await;
    let done = world.cri.create(&alone_id, &alone, &spec).await;
    done.expect("create");

    let quiet = Manners::default().listens_to(Events::NONE.and(Event::RunPodSandbox));
    let _guard = plugin(&world, "50", "guard", quiet).await;
    let done = world.cri.create(&pod_id, &pod, &spec).await;
    done.expect("create");
    let hooks = Manners::default().creates(|_| {
        adjustment(ContainerAdjustment {
            hooks: Some(Hooks {
                poststop: vec![Hook {
                    path: "/bin/true".to_owned(),
                    ..Hook::default()
                }],
                ..Hooks::default()
            }),
            ..ContainerAdjustment::default()
        })
    });
    let _hooks = plugin(&world, "60", "hooks", hooks).await;
    let other = world.container("other").shell("true");
    let error = world.cri.create(&pod_id, &pod, &other).await;
    let error = error.expect_err("hooks are forbidden");
    assert!(error.message().contains("60-hooks"), "{error}");
    world.finish().await;
}
