//! The daemon is killed again and again in the middle of its work.

use std::time::Duration;

use orlop_cri::v1::PodSandboxState;
use orlop_testkit::skip;

use crate::world::{World, world};

/// How often the daemon dies; `ORLOP_CRASH_KILLS=500` for the long form.
fn kills() -> u32 {
    std::env::var("ORLOP_CRASH_KILLS").map_or(12, |text| text.parse().expect("a number"))
}

#[tokio::test]
async fn killed_at_random_moments_it_loses_and_leaks_nothing() {
    let mut world = world!();
    if world.node.is_peer() {
        skip!("containerd 1.6 leaves names reserved and shims behind when killed mid-create");
    }
    // A bystander that must not notice any of it.
    let bystander = world
        .run_script("bystander", "while :; do sleep 1; done")
        .await;
    let started = world
        .cri
        .status(&bystander.id)
        .await
        .expect("status")
        .started_at;

    for round in 0..kills() {
        let load = (0..3).map(|lane| tokio::spawn(cycles(&world, round, lane)));
        let load: Vec<_> = load.collect();
        let moment = Duration::from_micros(u64::from(rand::random::<u32>()) % 150_000);
        tokio::time::sleep(moment).await;
        world.node.kill9();
        for lane in load {
            lane.await.expect("a lane panicked");
        }
        world.node.start_again().await;
        world.cri = world.node.cri().await;
    }

    let status = world.cri.status(&bystander.id).await.expect("status");
    assert_eq!(status.started_at, started);
    // What a kill has left stopped can be removed.
    for id in world.cri.pods().await.expect("list the pods") {
        let status = world.cri.pod_status(&id).await.expect("a pod's status");
        let stopped = status.state() == PodSandboxState::SandboxNotready;
        if stopped {
            world.cri.remove_pod(&id).await.expect("remove a pod");
        }
    }
    // Every name is free or finished: the same pods can be asked for again.
    for lane in 0..3 {
        let pod = world.node.pod(&format!("cycle-{lane}"));
        let pod_id = world
            .cri
            .run_pod(&pod)
            .await
            .expect("the name is not stuck");
        let spec = world.container("main").shell("exit 7").attempt(kills());
        let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
        assert_eq!(world.cri.wait_exited(&id).await.exit_code, 7);
    }
    world.finish().await;
}

/// Runs pod cycles until the daemon is gone.
fn cycles(world: &World, round: u32, lane: u32) -> impl Future<Output = ()> + use<> {
    let cri = world.cri.clone();
    let pod = world.node.pod(&format!("cycle-{lane}"));
    let spec = world
        .container("main")
        .shell("echo ahoy; sleep 600")
        .attempt(round);
    async move {
        let turn = async || -> Result<(), tonic::Status> {
            loop {
                let pod_id = cri.run_pod(&pod).await?;
                let id = cri.create(&pod_id, &pod, &spec).await?;
                cri.start(&id).await?;
                cri.exec(&id, &["true"]).await?;
                cri.stop(&id, 0).await?;
                cri.remove(&id).await?;
                cri.stop_pod(&pod_id).await?;
                cri.remove_pod(&pod_id).await?;
            }
        };
        // Whatever step the kill hit has failed; which one is left to chance.
        let _ = turn().await;
    }
}
