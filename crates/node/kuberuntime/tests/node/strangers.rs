//! File systems of the node that do not answer.

use orlop_kubelet_rules::phase::PodPhase;
use orlop_testkit::{SilentMount, skip};
use serde_json::json;

use crate::world::{World, container};

/// As many threads as the process under test has for its own work, and more pods than that.
const THREADS: usize = 6;

#[test]
fn a_pod_comes_up_and_ends_while_others_wait_for_a_dead_file_system() {
    orlop_testkit::skip_unless!(orlop_testkit::machine::can_run_pods());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .max_blocking_threads(THREADS)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let world = World::start().await;
        let dead = world.dir("dead");
        let mount = match SilentMount::on(&dead) {
            Ok(mount) => mount,
            Err(why) => skip!("{why}"),
        };
        let hung: Vec<_> = (0..=THREADS)
            .map(|number| {
                let name = format!("hung-{number}");
                let volume = json!({"name": "dead", "hostPath": {"path": dead.join("data"), "type": "Directory"}});
                world.run(&name, json!({"containers": [world.idle("main")], "volumes": [volume]}))
            })
            .collect();
        let mut main = world.sh("main", "touch /tmp/up; until [ -e /tmp/end ]; do sleep 0.1; done");
        main["readinessProbe"] =
            json!({"exec": {"command": ["/bin/test", "-e", "/tmp/up"]}, "periodSeconds": 1});
        let spec = json!({"restartPolicy": "Never", "containers": [main]});
        let other = world.run("other", spec);
        world.ready(&other).await;
        world.exec(&other, "main", "touch /tmp/end").await;
        let view = world.ended(&other).await;
        assert_eq!(view.phase, PodPhase::Succeeded, "{}", world.story(&other));
        for uid in &hung {
            world.event(uid, "FailedMount -").await;
            let story = world.story(uid);
            let said = format!("{}: the file system", dead.join("data").display());
            assert!(story.contains(&said), "{story}");
            let view = world.manager.pod(uid).expect("a pod");
            let waits = &container(&view, "main")["state"]["waiting"]["message"];
            assert!(waits.as_str().unwrap_or_default().contains(&said), "{waits}");
        }
        // Nobody waits for it to let a pod go.
        world.manager.remove_pod(&hung[0], None);
        world.gone(&hung[0]).await;
        drop(mount);
        // What is mended is found.
        std::fs::create_dir(dead.join("data")).expect("make");
        world.ready(&hung[1]).await;
        world.finish().await;
    });
}
