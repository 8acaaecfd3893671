//! The same request twice: nobody finds a name "reserved".

use futures_util::future::join_all;

use crate::world::ours;

#[tokio::test]
async fn equal_requests_for_a_pod_get_the_same_pod() {
    let world = ours!();
    let pod = world.node.pod("wanted");
    let ids = join_all((0..8).map(|_| world.cri.run_pod(&pod))).await;
    let ids: Vec<_> = ids.into_iter().map(|id| id.expect("joins")).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "several pods: {ids:?}");
    assert_eq!(
        world.cri.run_pod(&pod).await.expect("finds it done"),
        ids[0]
    );
    assert_eq!(world.cri.pods().await.expect("list").len(), 1);
    // Another attempt is another pod.
    let next = world.cri.run_pod(&pod.clone().attempt(1)).await;
    let next = next.expect("run");
    assert_ne!(next, ids[0]);
    world.finish().await;
}

#[tokio::test]
async fn equal_requests_for_a_container_get_the_same_container() {
    let world = ours!();
    let pod = world.node.pod("wanted");
    let pod_id = world.run_pod(&pod).await;
    let spec = world.container("main").shell("sleep 600");
    let ids = join_all((0..8).map(|_| world.cri.create(&pod_id, &pod, &spec))).await;
    let ids: Vec<_> = ids.into_iter().map(|id| id.expect("joins")).collect();
    assert!(
        ids.iter().all(|id| *id == ids[0]),
        "several containers: {ids:?}"
    );
    assert_eq!(world.cri.containers().await.expect("list").len(), 1);
    world.finish().await;
}
