//! What plugins change of containers, and of others because of one.

use std::time::Duration;

use orlop_cri_api::v1::{LinuxContainerResources, UpdateContainerResourcesRequest};
use orlop_testkit::Manners;
use orlop_testkit::machine::is_cgroup_v2;
use orlop_testkit::nri::v1alpha1::{
    ContainerAdjustment, ContainerEviction, CreateContainerRequest, CreateContainerResponse, Hook,
    Hooks, LinuxContainerAdjustment, LinuxCpu, LinuxMemory, LinuxPids, LinuxResources, Mount,
    OptionalInt64, PosixRlimit, StopContainerResponse, UpdateContainerResponse,
};

use super::{
    adds, adjustment, expected_shares, kernel_shares, plugin, shares, shares_of, taking_part,
    update, variable,
};
use crate::world::ours;

#[tokio::test]
async fn what_a_plugin_adjusts_is_seen_in_the_container() {
    let world = ours!();
    let given = world.node.scratch().subdir("given");
    std::fs::write(given.join("file"), "from the plugin").expect("write a file");
    let traces = world.node.scratch().path("hook-ran");
    let (source, trace) = (
        given.to_string_lossy().into_owned(),
        traces.to_string_lossy().into_owned(),
    );
    let adjust = move |_: CreateContainerRequest| {
        adjustment(ContainerAdjustment {
            annotations: [("example.com/added".to_owned(), "yes".to_owned())].into(),
            env: vec![variable("ADDED", "1"), variable("-GONE", "")],
            mounts: vec![Mount {
                destination: "/given".to_owned(),
                r#type: "bind".to_owned(),
                source: source.clone(),
                options: vec!["rbind".to_owned(), "ro".to_owned()],
            }],
            hooks: Some(Hooks {
                create_runtime: vec![Hook {
                    path: "/bin/touch".to_owned(),
                    args: vec!["touch".to_owned(), trace.clone()],
                    ..Hook::default()
                }],
                ..Hooks::default()
            }),
            rlimits: vec![PosixRlimit {
                r#type: "RLIMIT_NOFILE".to_owned(),
                hard: 321,
                soft: 123,
            }],
            linux: Some(LinuxContainerAdjustment {
                resources: Some(LinuxResources {
                    memory: Some(LinuxMemory {
                        limit: Some(OptionalInt64 { value: 48 << 20 }),
                        ..LinuxMemory::default()
                    }),
                    pids: Some(LinuxPids { limit: 33 }),
                    ..shares(512)
                }),
                ..LinuxContainerAdjustment::default()
            }),
            ..ContainerAdjustment::default()
        })
    };
    let manners = Manners::default().creates(adjust);
    let adjuster = plugin(&world, "10", "adjuster", manners).await;
    let script = "echo added=$ADDED gone=$GONE kept=$KEPT; cat /given/file; echo; \
                  touch /given/x 2>/dev/null || echo read-only; ulimit -n; sleep 600";
    let spec = world.container("main").shell(script).with(|config| {
        for (key, value) in [("GONE", "here"), ("KEPT", "2")] {
            config.envs.push(orlop_cri_api::v1::KeyValue {
                key: key.to_owned(),
                value: value.to_owned().into(),
            });
        }
    });
    let running = world.run_container("adjusted", &spec).await;
    let expected = [
        "added=1 gone= kept=2",
        "from the plugin",
        "read-only",
        "123",
    ];
    orlop_testkit::wait_until!(
        Duration::from_secs(20),
        running.stdout().lines().count() >= expected.len(),
        "{}",
        running.stdout()
    );
    assert_eq!(running.stdout().lines().collect::<Vec<_>>(), expected);
    assert!(traces.exists(), "the hook ran");
    assert_eq!(shares_of(&world, &running.id).await, 512);
    assert_eq!(
        kernel_shares(&world, &running.id).await,
        expected_shares(512)
    );
    let status = world.cri.status(&running.id).await.expect("status");
    let linux = status
        .resources
        .and_then(|resources| resources.linux)
        .expect("resources");
    assert_eq!(linux.memory_limit_in_bytes, 48 << 20);
    let (v1, v2) = ("/sys/fs/cgroup/pids/pids.max", "/sys/fs/cgroup/pids.max");
    let file = if is_cgroup_v2() { v2 } else { v1 };
    let pids = world.cri.exec(&running.id, &["cat", file]).await;
    let pids = pids.expect("exec");
    assert_eq!(String::from_utf8_lossy(&pids.stdout).trim(), "33");
    // Commands run in the container have its environment.
    let command = ["sh", "-c", "echo $ADDED"];
    let output = world.cri.exec(&running.id, &command).await.expect("exec");
    assert_eq!(output.stdout, b"1\n");
    let seen = adjuster
        .wait_for("PostStartContainer", &running.id)
        .await
        .container;
    assert_eq!(seen.annotations["example.com/added"], "yes");
    assert!(seen.env.contains(&"ADDED=1".to_owned()), "{:?}", seen.env);
    world.finish().await;
}

#[tokio::test]
async fn updates_reach_other_containers_whatever_they_come_with() {
    let world = ours!();
    let first = world.run_script("first", "sleep 600").await;
    let target = first.id.clone();
    let with_creation = target.clone();
    let with_update = target.clone();
    let with_stop = target.clone();
    let manners = Manners::default()
        .creates(move |_| CreateContainerResponse {
            update: vec![update(&with_creation, shares(512))],
            ..CreateContainerResponse::default()
        })
        .updates(move |request| {
            let own = request.container.expect("a container").id;
            UpdateContainerResponse {
                update: vec![
                    update(&own, shares(1024)),
                    update(&with_update, shares(1024)),
                ],
                ..UpdateContainerResponse::default()
            }
        })
        .stops(move |_| StopContainerResponse {
            update: vec![update(&with_stop, shares(512))],
        });
    let updater = plugin(&world, "10", "updater", manners).await;

    let second = world.run_script("second", "sleep 600").await;
    assert_eq!(kernel_shares(&world, &target).await, expected_shares(512));
    let request = UpdateContainerResourcesRequest {
        container_id: second.id.clone(),
        linux: Some(LinuxContainerResources {
            cpu_shares: 300,
            memory_limit_in_bytes: 64 << 20,
            ..LinuxContainerResources::default()
        }),
        ..UpdateContainerResourcesRequest::default()
    };
    let mut client = world.cri.runtime();
    let done = client.update_container_resources(request).await;
    done.expect("update");
    assert_eq!(kernel_shares(&world, &target).await, expected_shares(1024));
    assert_eq!(
        kernel_shares(&world, &second.id).await,
        expected_shares(1024),
        "the plugin's word goes before the client's"
    );
    let status = world.cri.status(&second.id).await.expect("status");
    let linux = status
        .resources
        .and_then(|all| all.linux)
        .expect("resources");
    assert_eq!(
        linux.memory_limit_in_bytes,
        64 << 20,
        "the client's word holds, too"
    );
    world.cri.stop(&second.id, 0).await.expect("stop");
    assert_eq!(kernel_shares(&world, &target).await, expected_shares(512));

    // Of its own accord; what is not there is passed over, what cannot be is said.
    let impossible = LinuxResources {
        cpu: Some(LinuxCpu {
            cpus: "nonsense".to_owned(),
            ..LinuxCpu::default()
        }),
        ..LinuxResources::default()
    };
    let updates = vec![
        update("nobody", shares(2)),
        update(&target, shares(1024)),
        update(&target, impossible.clone()),
    ];
    let failed = updater.stub().update(updates, Vec::new()).await;
    let failed = failed.expect("update");
    assert_eq!(failed, [update(&target, impossible)]);
    assert_eq!(kernel_shares(&world, &target).await, expected_shares(1024));

    let eviction = ContainerEviction {
        container_id: target.clone(),
        reason: "the test wants room".to_owned(),
    };
    let evicted = updater.stub().update(Vec::new(), vec![eviction]).await;
    assert!(evicted.expect("evict").is_empty());
    let status = world.cri.wait_exited(&target).await;
    assert_eq!(status.exit_code, 137);
    assert!(world.node.log().contains("the test wants room"));
    world.finish().await;
}

#[tokio::test]
async fn two_plugins_that_want_the_same_are_told_apart() {
    let world = ours!();
    let _one = plugin(&world, "10", "one", adds("SAME", "1")).await;
    let two = plugin(&world, "20", "two", adds("SAME", "2")).await;
    let pod = world.node.pod("contested");
    let pod_id = world.run_pod(&pod).await;
    let spec = world.container("main").shell("true");
    let error = world.cri.create(&pod_id, &pod, &spec).await;
    let error = error.expect_err("they do not agree");
    assert_eq!(error.code(), tonic::Code::FailedPrecondition, "{error}");
    for word in ["10-one", "20-two", "Env SAME"] {
        assert!(error.message().contains(word), "{error}");
    }
    two.leave();
    taking_part(&world, "20-two", false).await;
    let done = world.cri.create(&pod_id, &pod, &spec).await;
    done.expect("create");
    world.finish().await;
}
