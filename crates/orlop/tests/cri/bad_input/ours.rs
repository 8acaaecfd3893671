//! Runs on orlop alone.

use super::*;
use crate::world::ours;

#[tokio::test]
async fn senseless_pods_are_refused() {
    // containerd 1.6 takes most of these pods, or panics on them.
    let world = ours!();
    for case in pod_cases() {
        let pod = world.node.pod("senseless").with(case.spoil);
        let error = world.cri.run_pod(&pod).await.expect_err(case.what);
        check(&world.node, case.what, &error, case.code, case.word);
        assert_eq!(
            world.cri.pods().await.expect("list"),
            [""; 0],
            "{}",
            case.what
        );
    }
    world.finish().await;
}

#[tokio::test]
async fn nothing_is_made_for_a_pod_that_cannot_be() {
    let world = ours!();
    let places = [
        world.node.root().join("pods"),
        world.node.state().join("pods"),
        world.node.state().join("netns"),
    ];
    // Whatever is made there, and be it removed again, changes when it was changed.
    let changed = || places.each_ref().map(|place| last_change(place));
    let before = changed();
    for case in impossible_pods() {
        let pod = world.node.pod("impossible").with(|pod| {
            options(pod).network = NamespaceMode::Pod.into();
            (case.spoil)(pod);
        });
        let error = world.cri.run_pod(&pod).await.expect_err(case.what);
        check(&world.node, case.what, &error, case.code, case.word);
        assert_eq!(changed(), before, "something was made for {}", case.what);
    }
    let pod = world.node.pod("possible");
    world.run_pod(&pod).await;
    assert_ne!(changed(), before, "a pod leaves these places as they were");
    world.finish().await;
}

#[tokio::test]
async fn nothing_is_made_for_a_container_that_cannot_be() {
    let world = ours!();
    let pod = world.node.pod("waiting");
    let pod_id = world.run_pod(&pod).await;
    let first = world.container("first").shell("true");
    let done = world.cri.create(&pod_id, &pod, &first).await;
    done.expect("the first");
    let places = [
        world
            .node
            .root()
            .join("pods")
            .join(&pod_id)
            .join("containers"),
        world.node.state().join("pods").join(&pod_id),
    ];
    let changed = || places.each_ref().map(|place| last_change(place));
    let before = changed();
    for case in impossible_containers() {
        let spec = world.container("impossible").shell("true").with(case.spoil);
        let error = world.cri.create(&pod_id, &pod, &spec).await;
        check(
            &world.node,
            case.what,
            &error.expect_err(case.what),
            case.code,
            case.word,
        );
        assert_eq!(changed(), before, "something was made for {}", case.what);
    }
    let spec = world.container("possible").shell("true");
    let done = world.cri.create(&pod_id, &pod, &spec).await;
    done.expect("create");
    let after = changed();
    let same = places
        .iter()
        .zip(before)
        .zip(after)
        .find(|((_, before), after)| before == after);
    assert!(same.is_none(), "a container leaves {same:?} as it was");
    world.finish().await;
}
